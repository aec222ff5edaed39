"""Finds mistakes in policies, without running them."""
