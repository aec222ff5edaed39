"""The cluster: the only importer of the Kubernetes client. Importing this package alone loads nothing of it."""
