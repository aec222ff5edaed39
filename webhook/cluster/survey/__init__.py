"""The Nodes as the process that leads sees them: flaws of the network, and facts for policies."""
