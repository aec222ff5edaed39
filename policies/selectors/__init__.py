"""What people write by hand to choose Nodes: node selectors, node affinity, topology keys."""
