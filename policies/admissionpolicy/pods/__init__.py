"""Derives the Pods that a workload creates, with the API server's defaults."""
