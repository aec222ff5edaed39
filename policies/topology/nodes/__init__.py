"""The Nodes of a cluster: what each has and what Pods hold of it, and the domains that they are in."""
