"""The inventory of a cluster: its Nodes, what is free on them, what was promised, and the choices made from it."""
