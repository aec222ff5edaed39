"""Reads documents into policies, bindings and exceptions, and reports all problems with their places."""
