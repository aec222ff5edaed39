"""Rewrites policies on Pods so that they judge the pod templates of workloads, for kube-apiserver alone."""
