"""Files of expressions with their expected results, and runs of this engine on them."""
