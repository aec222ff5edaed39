"""Topology annotations: how close the Pods of a workload must be, as node affinity on the labels that Nodes carry."""
