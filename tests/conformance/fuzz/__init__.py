"""Random expressions, asked of kube-apiserver's library and of our engine."""
