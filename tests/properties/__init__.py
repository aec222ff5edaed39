"""Properties that hold for every input, tried on many."""
