"""What a real kube-apiserver pays for each write: its processor time and its latency, with and without the service."""
