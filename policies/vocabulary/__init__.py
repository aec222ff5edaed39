"""The label keys that clouds, Topograph and Kubernetes put on Nodes, and what each of them says."""
