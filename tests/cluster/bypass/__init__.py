"""Attempts to get a reserved label past the guard: every place of a label, in every way to write it."""
