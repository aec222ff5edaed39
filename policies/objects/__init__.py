"""Kubernetes objects as decoded JSON: paths, patches, pod templates, Pods."""
