"""The settings, and the rules made from them."""
