"""Where policies and topologies come from: files, ConfigMaps, the cluster."""
