"""The address of a domain: its value at a level, with the ancestors that make it unique."""

from __future__ import annotations

from msgspec import Struct


class Step(Struct, frozen=True):
    """Domains of one level. tier: its position in the gang's tiers.

    keys: the keys of the level under which the Nodes of these domains carry the value: one if all of them carry it,
    else each is an alternative. values: one for a chosen domain; several only for preferred domains below the one that
    holds the whole gang.
    """

    tier: int
    keys: tuple[str, ...]
    values: tuple[str, ...]


Address = tuple[Step, ...]
"""A domain, with the ancestors that make it unique, farthest first."""
