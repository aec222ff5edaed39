"""A real Kubernetes control plane on loopback, and the tests that need one."""
