"""The sources of policies and topologies: files, ConfigMaps, the cluster."""
