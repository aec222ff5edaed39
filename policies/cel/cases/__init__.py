"""Files of expressions with the values that they should have, and how this engine does on them."""
