"""Where the service's policies come from."""
