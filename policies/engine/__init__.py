"""The pipeline: a request, rules, facts, and the answer."""
