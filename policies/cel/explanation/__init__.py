"""Explanations of why an expression was false or failed."""
