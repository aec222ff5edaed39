"""What each topology has of Nodes and accelerators, as the data of a ConfigMap, which expressions can read.

A ConfigMap holds texts, and CEL in Kubernetes reads no JSON. So each number is a key of its own, and domains are lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from policies.topology.nodes.tree import COMMON, Machine, present, suited
from policies.topology.topology import Topology, natural
from policies.vocabulary import HOSTNAME

ROOM: Final = 900_000
"""How many bytes the data may have; the API server takes a ConfigMap of 1 MiB."""

CUT: Final = "{:,} domains take more room than a ConfigMap has: the numbers are true, the list is left out"
_UNFIT: Final = re.compile(r"[^-._a-zA-Z0-9]")
_LONGEST_KEY: Final = 253


_AMOUNTS: Final = ("nodes", "gpus", "usable")
"""Nodes, their accelerators, and those of them on Nodes that accept Pods."""


def data(machines: Sequence[Machine], topologies: Iterable[Topology], room: int = ROOM) -> dict[str, str]:
    """The numbers of all topologies that Nodes have, by key, and the lists of domains for which there is room.

    `T.levels` names the levels of topology T, farthest first, and `T.nodes`, `T.gpus` and `T.usable` are the sums. Of
    level L, `T.L.domains` is the number of domains, and `T.L.nodes`, `T.L.gpus` and `T.L.usable` are the most that one
    domain has. `T.L` lists the domains in lines; where it has no room, `T.L.cut` says so.
    """
    numbers: dict[str, str] = {}
    lists: list[tuple[str, list[str]]] = []
    amounts = {m.node.name: (1, m.total, m.total if m.is_open else 0) for m in machines}
    for topology in topologies:
        own = suited(topology, machines)
        levels = present(own, topology)
        # What differs from other topologies has to be there; where nothing does, any level.
        telling = [level for level in topology.levels if level.name not in COMMON] or levels
        if not own or not any(level in levels for level in telling):
            continue
        name, names = _fit(topology.name), [topology.called(level) for level in levels]
        rows = [(tuple(level.value(m.node.labels) for level in levels), amounts[m.node.name]) for m in own]
        numbers |= {f"{name}.levels": " ".join(map(_fit, names)), **_keyed(name, _sum(amount for _, amount in rows))}
        for position, level in enumerate(levels):
            # Each with the domains around it: numbers repeat across fabrics.
            domains: dict[tuple[str | None, ...], list[tuple[int, ...]]] = {}
            for values, amount in rows:
                if values[position] is not None:
                    domains.setdefault(values[: position + 1], []).append(amount)
            sums = {values: _sum(inside) for values, inside in domains.items()}
            key = f"{name}.{_fit(names[position])}"
            largest = tuple(map(max, zip(*sums.values(), strict=True))) or (0, 0, 0)
            numbers |= {f"{key}.domains": str(len(sums)), **_keyed(key, largest)}
            if level.name != HOSTNAME:
                lists.append((key, list(_lines(sums, names))))
    left = room - sum(len(key) + len(text) for key, text in numbers.items())
    texts = sorted(((key, "\n".join(lines), len(lines)) for key, lines in lists), key=lambda item: len(item[1]))
    for key, text, count in texts:
        if len(key) + len(text) <= left:
            numbers[key] = text
            left -= len(key) + len(text)
        else:
            numbers[f"{key}.cut"] = CUT.format(count)
    return {key: text for key, text in sorted(numbers.items()) if len(key) <= _LONGEST_KEY}


def _sum(amounts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*amounts, strict=True)))


def _keyed(key: str, amount: tuple[int, ...]) -> Mapping[str, str]:
    return {f"{key}.{name}": str(size) for name, size in zip(_AMOUNTS, amount, strict=True)}


def _lines(domains: Mapping[tuple[str | None, ...], tuple[int, ...]], names: Sequence[str]) -> Iterator[str]:
    """A line for each domain: `fabric=f1,superpod=3 nodes=6 gpus=48 usable=40`."""
    for values in sorted(domains, key=lambda values: [natural(value or "") for value in values]):
        place = ",".join(f"{name}={value}" for name, value in zip(names, values, strict=False) if value is not None)
        yield " ".join((place, *(f"{name}={size}" for name, size in zip(_AMOUNTS, domains[values], strict=True))))


def _fit(name: str) -> str:
    return _UNFIT.sub("_", name)
