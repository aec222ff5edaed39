"""A real Kubernetes control plane on loopback, and the proofs that need one."""
