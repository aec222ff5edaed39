"""What each topology has of Nodes and accelerators, as the data of a ConfigMap, which expressions can read.

A ConfigMap holds texts, and CEL in Kubernetes reads no JSON. So each number is a key of its own, and domains are lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from policies.topology.nodes.tree import COMMON, Machine, present, suited
from policies.topology.topology import Level, Topology, natural
from policies.vocabulary import HOSTNAME

ROOM: Final = 900_000
"""How many bytes the data may have; the API server takes a ConfigMap of 1 MiB."""

CUT: Final = "{:,} domains take more room than a ConfigMap has: the numbers are true, the list is left out"
_UNFIT: Final = re.compile(r"[^-._a-zA-Z0-9]")
_LONGEST_KEY: Final = 253


Values = tuple[str | None, ...]
"""The domains of a Node, level by level; None where it lacks the level."""


class Amount(Struct):
    """Nodes with their accelerators. usable: those on Nodes that accept Pods."""

    nodes: int = 0
    gpus: int = 0
    usable: int = 0

    def add(self, other: Amount) -> None:
        """Count more of them."""
        self.nodes += other.nodes
        self.gpus += other.gpus
        self.usable += other.usable

    @property
    def text(self) -> str:
        """The numbers in a line."""
        return f"nodes={self.nodes} gpus={self.gpus} usable={self.usable}"


class _List(Struct):
    """The domains of a level as lines under a key. count: how many there are."""

    key: str
    text: str
    count: int


def data(machines: Sequence[Machine], topologies: Iterable[Topology], room: int = ROOM) -> dict[str, str]:
    """The numbers of all topologies that Nodes have, by key, and the lists of domains for which there is room.

    `T.levels` names the levels of topology T, farthest first, and `T.nodes`, `T.gpus` and `T.usable` are the sums. Of
    level L, `T.L.domains` is the number of domains, and `T.L.nodes`, `T.L.gpus` and `T.L.usable` are the most that one
    domain has. `T.L` lists the domains in lines; where it has no room, `T.L.cut` says so.
    """
    numbers: dict[str, str] = {}
    lists: list[_List] = []
    amounts = {m.node.name: Amount(1, m.total, m.total if m.is_open else 0) for m in machines}
    for topology in topologies:
        own = suited(topology, machines)
        levels = present(own, topology)
        if own and _is_carried(topology, levels):
            rows = [(_values(levels, machine.node.labels), amounts[machine.node.name]) for machine in own]
            numbers |= _numbers(topology, levels, rows, lists)
    left = room - sum(len(key) + len(text) for key, text in numbers.items())
    for chosen in sorted(lists, key=lambda item: len(item.text)):
        size = len(chosen.key) + len(chosen.text)
        if size <= left:
            numbers[chosen.key] = chosen.text
            left -= size
        else:
            numbers[f"{chosen.key}.cut"] = CUT.format(chosen.count)
    return {key: text for key, text in sorted(numbers.items()) if len(key) <= _LONGEST_KEY}


def _is_carried(topology: Topology, levels: Sequence[Level]) -> bool:
    """Whether Nodes have a level by which the topology differs from others; where it has none, any level."""
    own = [level for level in topology.levels if level.name not in COMMON]
    return any(level in levels for level in own) if own else bool(levels)


def _values(levels: Iterable[Level], labels: Mapping[str, str]) -> Values:
    return tuple(level.value(labels) for level in levels)


def _numbers(
    topology: Topology, levels: Sequence[Level], rows: Sequence[tuple[Values, Amount]], lists: list[_List]
) -> Mapping[str, str]:
    """The numbers of a topology; what is listed is added to `lists`."""
    name, names = _fit(topology.name), [topology.called(level) for level in levels]
    numbers = {f"{name}.levels": " ".join(map(_fit, names)), **_of(name, _sum(amount for _, amount in rows))}
    for position, level in enumerate(levels):
        domains = _domains(rows, position)
        key = f"{name}.{_fit(names[position])}"
        largest = Amount(*map(max, zip(*map(_sizes, domains.values()), strict=True)))
        numbers |= {f"{key}.domains": str(len(domains)), **_of(key, largest)}
        if level.name != HOSTNAME:
            lists.append(_List(key, "\n".join(_lines(domains, names)), len(domains)))
    return numbers


def _of(key: str, amount: Amount) -> Mapping[str, str]:
    names = ("nodes", "gpus", "usable")
    return {f"{key}.{name}": str(size) for name, size in zip(names, _sizes(amount), strict=True)}


def _sizes(amount: Amount) -> tuple[int, int, int]:
    return amount.nodes, amount.gpus, amount.usable


def _sum(amounts: Iterable[Amount]) -> Amount:
    whole = Amount()
    for amount in amounts:
        whole.add(amount)
    return whole


def _domains(rows: Iterable[tuple[Values, Amount]], position: int) -> Mapping[Values, Amount]:
    """The domains of a level, each with the domains around it: numbers repeat across fabrics."""
    domains: dict[Values, Amount] = {}
    for values, amount in rows:
        if values[position] is not None:
            domains.setdefault(values[: position + 1], Amount()).add(amount)
    return domains


def _lines(domains: Mapping[Values, Amount], names: Sequence[str]) -> Iterator[str]:
    """A line for each domain: `fabric=f1,superpod=3 nodes=6 gpus=48 usable=40`."""
    for values in sorted(domains, key=lambda values: [natural(value or "") for value in values]):
        place = ",".join(f"{name}={value}" for name, value in zip(names, values, strict=False) if value is not None)
        yield f"{place} {domains[values].text}"


def _fit(name: str) -> str:
    return _UNFIT.sub("_", name)
