"""What rules look up in the cluster."""
