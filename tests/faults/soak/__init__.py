"""A soak: hours at half of capacity with reloads, rotations and leader changes, and what they cost."""
