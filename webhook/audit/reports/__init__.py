"""Findings as PolicyReports: one for each workload, in the form that the cluster has."""
