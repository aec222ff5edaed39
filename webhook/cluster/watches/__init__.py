"""Objects that are followed: a list, then a watch."""
