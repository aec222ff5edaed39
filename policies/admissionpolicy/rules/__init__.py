"""Policies as rules of the engine, and as what suites run."""
