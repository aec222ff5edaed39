"""Gangs: the Pods of a workload that belong in one domain, what they ask for, and what was promised to them."""
