"""CEL policies of Kyverno and Gatekeeper as Kubernetes' own."""
