"""The placer: which gangs start now, where each of their Pods belongs, and why the others wait. Pure."""
