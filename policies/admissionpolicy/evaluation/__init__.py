"""Evaluates policies for requests: expressions, parameters, matching, results."""
