"""State that replicas share: the Lease and the webhook configurations."""
