"""How a run of a verb begins again, how far it is, and how it ends."""
