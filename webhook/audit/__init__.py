"""Judges objects that exist already: what is wrong with each, as records, and reports of them."""
