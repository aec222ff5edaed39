"""Kubernetes' own kinds: their types, and what the API server makes of an object before a policy sees it."""
