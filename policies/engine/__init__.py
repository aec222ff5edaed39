"""The pipeline from a request, with rules and facts, to the answer."""
