"""A policy judges a request: expressions, parameters, matching, results."""
