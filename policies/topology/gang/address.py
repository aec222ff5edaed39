"""The address of a domain: its value at a level, with the ancestors that make it unique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct


class Step(Struct, frozen=True):
    """A domain of one level. tier: its position in the gang's tiers. keys: the level's; its Nodes have one of them."""

    tier: int
    keys: tuple[str, ...]
    value: str


Address = tuple[Step, ...]
"""A domain, with the ancestors that make it unique, farthest first."""


def is_within(steps: Iterable[Step], labels: Mapping[str, str]) -> bool:
    """Whether a Node with these labels is in a domain."""
    return all(any(labels.get(key) == step.value for key in step.keys) for step in steps)


def called(address: Iterable[Step]) -> str:
    """A domain by the short names of its keys, as people write it: `superpod=2,rack=12`."""
    return ",".join(f"{step.keys[0].rpartition('/')[2]}={step.value}" for step in address)
