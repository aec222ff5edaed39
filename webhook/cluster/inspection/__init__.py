"""Reads the state of a cluster once, for `doctor` and `topology`."""
