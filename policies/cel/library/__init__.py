"""The functions of Kubernetes' environment, with overloads and costs. Each library is a module."""
