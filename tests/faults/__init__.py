"""Faults, each done to the real service, with what people saw; the table in docs/reliability.md is made from them."""
