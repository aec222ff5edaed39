"""What objects of the cluster can write into labels without the guard being asked about it."""
