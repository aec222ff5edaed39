"""Requests to the API server, and the objects in its answers."""
