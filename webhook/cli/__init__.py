"""The command line, a module per verb. Results go to stdout, everything else to stderr."""
