"""The choice of a domain for a gang: pure, deterministic, explained."""
