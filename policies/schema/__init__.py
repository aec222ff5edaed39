"""Judges objects by the schemas and rules of the API server, before anybody applies them."""
