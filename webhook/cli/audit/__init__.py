"""`cks-admission audit`: files or a cluster, and the forms of what is found."""
