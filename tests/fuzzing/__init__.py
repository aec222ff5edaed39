"""Random input of every kind, and what must hold for all of it."""
