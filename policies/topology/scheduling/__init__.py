"""Schedulers that place whole gangs: Kubernetes' own workload scheduling, and Kueue. What they need for a placement."""
