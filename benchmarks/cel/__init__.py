"""CEL: this project's engine against kube-apiserver's own library and cel-python, on one Pod and twenty policies."""
