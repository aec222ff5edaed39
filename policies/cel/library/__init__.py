"""The functions of Kubernetes' environment: one module for each library, with overloads and costs."""
