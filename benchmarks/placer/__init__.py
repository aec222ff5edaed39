"""What the placer of a large cluster costs."""
