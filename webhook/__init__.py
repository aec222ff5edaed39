"""Input and output: HTTP for the API server, the cluster, the command line. `policies` makes the decisions."""
