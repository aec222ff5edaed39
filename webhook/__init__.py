"""Talks: HTTP to the API server, the cluster, the command line. The decisions are in `policies`."""
