"""Who keeps a placement's promise: the ways to keep the Pods of a gang together, and which of them a workload goes."""
