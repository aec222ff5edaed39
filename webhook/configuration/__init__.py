"""The settings, and the rules that follow from them."""
