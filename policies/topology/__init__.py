"""Topology annotations: how close together the Pods of a workload must run, written as node affinity on Node labels."""
