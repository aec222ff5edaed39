"""The exact evaluator: an expression as steps that charge what kube-apiserver charges."""
