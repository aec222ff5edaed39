"""The types of a tree, and the other checks that Kubernetes makes before an expression may run."""
