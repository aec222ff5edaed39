"""Follows objects of the cluster with a list and then a watch."""
