"""The packing of Pods into Nodes."""
