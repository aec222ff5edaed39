"""One look at a cluster, for `doctor` and `topology`."""
