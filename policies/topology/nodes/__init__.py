"""The Nodes of a cluster, their accelerators, and the domains that they are in."""
