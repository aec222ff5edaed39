"""The functions that Kubernetes adds to CEL. Each library is a module."""
