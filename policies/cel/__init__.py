"""The expression language of Kubernetes' admission policies, compiled to Python."""
