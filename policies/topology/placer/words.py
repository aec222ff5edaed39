"""Domains and sizes as people write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from policies.topology.gang.address import Address, called
from policies.topology.topology import natural

_MOST_SHOWN: Final = 8


def words(address: Address) -> str:
    """A domain: `superpod=2,rack=12`."""
    return called(address) or "the cluster"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 Pod`, `2 Pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size(pods: int, accelerators: int) -> str:
    """The size of a gang: `8 Pods with 64 GPUs`."""
    return counted(pods, "Pod") + (f" with {counted(accelerators, 'GPU')}" if accelerators else "")


def spread(domains: Iterable[Address]) -> str:
    """How Pods are spread over nearer domains: `: 8 in rack=1, 8 in rack=2`; empty if they are in one."""
    counts = Counter(words(address) for address in domains if address)
    if len(counts) < 2:
        return ""
    shown = sorted(counts.items(), key=lambda item: natural(item[0]))[:_MOST_SHOWN]
    more = f" and {len(counts) - len(shown)} more" if len(counts) > len(shown) else ""
    return f": {', '.join(f'{count} in {name}' for name, count in shown)}{more}"
