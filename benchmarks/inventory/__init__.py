"""What the inventory of a large cluster costs."""
