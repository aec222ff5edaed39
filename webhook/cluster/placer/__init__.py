"""The placer in a cluster: what it follows, and how it opens gates."""
