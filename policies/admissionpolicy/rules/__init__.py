"""Policies as rules of the engine, and test suites of policies."""
