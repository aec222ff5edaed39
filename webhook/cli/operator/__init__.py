"""The verbs of those who run the service: serve, manage, doctor, certs, unregister."""
