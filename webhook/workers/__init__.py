"""Several worker processes that share one port, and their supervisor."""
