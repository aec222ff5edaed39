"""The functions that Kubernetes adds to CEL: a module for each library."""
