"""Types of a tree, and what else Kubernetes checks before an expression may run."""
