"""Gangs: the Pods of a workload that belong in one domain, and what they ask for."""
