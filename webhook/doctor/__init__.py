"""Checks of an installation: observed values in, diagnoses out."""
