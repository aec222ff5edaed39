"""Talks to the cluster. Only this package imports the Kubernetes client, and importing it alone does not load it."""
