"""Nodes as a tree of domains, level by level, with the total and the free accelerators of each.

A domain is identified by its value and the domains around it, because numbers repeat across fabrics.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from policies.topology.gang.address import is_within
from policies.topology.gang.promise import Promise
from policies.topology.nodes.machine import Machine
from policies.topology.term import alternatives, meets
from policies.topology.topology import Level, Topology
from policies.vocabulary.keys import HOSTNAME, REGION, ZONE

# Nodes have these labels on every cloud, so they do not show which topology fits.
COMMON = frozenset({REGION, ZONE, HOSTNAME})
_USUAL = "coreweave"
_DIGITS = re.compile(r"([0-9]+)")

Path = tuple[tuple[Level, str], ...]
"""The domains that a Node is in, farthest first, each as level and value."""


class Count(Struct, frozen=True):
    """The Nodes and accelerators in a domain. total, used, free: accelerators; the last two None if Pods are not known.

    closed: Nodes that accept no new Pods. obstacles: how many of them for which reason. promised: accelerators that are
    free, but promised to gangs that are placed in it. flaws: how many Nodes have which kind of flaw of the network.
    """

    nodes: int
    closed: int
    total: int
    used: int | None
    free: int | None
    obstacles: tuple[tuple[str, int], ...] = ()
    promised: int = 0
    flaws: tuple[tuple[str, int], ...] = ()

    @property
    def unavailable(self) -> int:
        """The unused accelerators on closed Nodes, which no Pod can get; 0 if Pods are not known."""
        return 0 if self.used is None or self.free is None else max(0, self.total - self.used - self.free)


class Reservation(Struct, frozen=True):
    """Accelerators that are promised to a gang somewhere on these Nodes."""

    nodes: frozenset[str]
    accelerators: int


class Branch(Struct, frozen=True):
    """A domain of a level. A value of None stands for Nodes that lack the level. The root has no level.

    machines: the Nodes that are in no branch; empty if the tree ends above Nodes.
    """

    level: Level | None
    value: str | None
    count: Count
    branches: tuple[Branch, ...] = ()
    machines: tuple[Machine, ...] = ()


def tree(
    machines: Sequence[Machine],
    topology: Topology,
    lowest: Level | None = None,
    reservations: Sequence[Reservation] = (),
) -> Branch:
    """The tree of all Nodes, without levels that no Node has. lowest: the last level of the tree.

    Nodes that lack a level share a branch, which goes on at the next level that they have. The Nodes themselves stand
    for the hostname level.
    """
    levels = [level for level in present(machines, topology) if level.name != HOSTNAME]
    with_machines = lowest is None or lowest.name == HOSTNAME
    if lowest is not None:
        levels = [level for level in levels if topology.position(level) <= topology.position(lowest)]
    branches, own = _split(machines, levels, reservations, lacking=False, with_machines=with_machines)
    return Branch(None, None, count(machines, reservations), branches, own)


def reservations(machines: Iterable[Machine], promises: Iterable[Promise]) -> tuple[Reservation, ...]:
    """The promises, each with the Nodes of its domain; without those whose domain has no Node."""
    around = tuple(machines)
    reserved = (
        Reservation(
            frozenset(machine.node.name for machine in around if is_within(promise.address, machine.node.labels)),
            sum(member.count * member.accelerators for member in promise.members),
        )
        for promise in promises
    )
    return tuple(reservation for reservation in reserved if reservation.nodes)


def line(branch: Branch) -> tuple[Branch, ...]:
    """The branch and those below it, down to the first that splits. All contain the same Nodes."""
    chain = [branch]
    while len(chain[-1].branches) == 1 and not chain[-1].machines:
        chain.append(chain[-1].branches[0])
    return tuple(chain)


def count(machines: Iterable[Machine], reservations: Iterable[Reservation] = ()) -> Count:
    """The count of Nodes and their accelerators. A reservation counts where all Nodes of its domain are."""
    counted = tuple(machines)
    known = all(machine.used is not None for machine in counted)
    closed = Counter(obstacles[0].reason for machine in counted if (obstacles := machine.obstacles))
    flawed = Counter(kind for machine in counted for kind in dict.fromkeys(flaw.kind for flaw in machine.flaws))
    names = frozenset(machine.node.name for machine in counted) if reservations else frozenset()
    return Count(
        len(counted),
        closed.total(),
        sum(machine.total for machine in counted),
        sum(machine.used or 0 for machine in counted) if known else None,
        sum(machine.free or 0 for machine in counted) if known else None,
        tuple(sorted(closed.items(), key=lambda item: (-item[1], item[0]))),
        sum(reservation.accelerators for reservation in reservations if reservation.nodes <= names),
        tuple(sorted(flawed.items(), key=lambda item: (-item[1], item[0]))),
    )


def present(machines: Iterable[Machine], topology: Topology) -> tuple[Level, ...]:
    """The levels that any of the Nodes has."""
    labelled = {key for machine in machines for key in machine.node.labels}
    return tuple(level for level in topology.levels if not labelled.isdisjoint(level.keys))


def domain(level: Level, labels: Mapping[str, str]) -> str | None:
    """The domain of a level that a Node with these labels is in; None without such a label."""
    return next((labels[key] for key in level.keys if key in labels), None)


def path(levels: Iterable[Level], labels: Mapping[str, str]) -> Path:
    """The domains of these levels that a Node is in, without levels that it lacks."""
    return tuple((level, value) for level in levels if (value := domain(level, labels)) is not None)


def best_topology(machines: Sequence[Machine], topologies: Sequence[Topology]) -> Topology:
    """The topology to show Nodes by: CoreWeave's if they have its labels, else the one whose levels most Nodes have.

    Among equals it is the one with the fewest levels that no Node has, then the first one.
    """
    for topology in topologies:
        own = [level for level in topology.levels if level.name not in COMMON]
        if topology.name == _USUAL and any(domain(level, m.node.labels) is not None for m in machines for level in own):
            return topology
    return max(topologies, key=lambda topology: _fit(machines, topology))


def suited(topology: Topology, machines: Iterable[Machine]) -> list[Machine]:
    """The Nodes that are in a topology's pool and meet its requirement."""
    required, pool = alternatives((), topology.requirement), topology.pool
    labelled = ((machine, machine.node.labels) for machine in machines)
    return [
        machine for machine, labels in labelled if (pool is None or pool.matches(labels)) and meets(labels, required)
    ]


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key that orders numbers in names by their value."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text) if part)


def _split(
    machines: Sequence[Machine],
    levels: Sequence[Level],
    reservations: Sequence[Reservation],
    *,
    lacking: bool,
    with_machines: bool,
) -> tuple[tuple[Branch, ...], tuple[Machine, ...]]:
    """The branches of Nodes by the remaining levels, and the Nodes that have none of these.

    lacking: whether the Nodes are already in a branch for a lacking level. They get no second one for the next level.
    """
    if not levels:
        return (), tuple(sorted(machines, key=lambda machine: natural(machine.node.name))) if with_machines else ()
    level, *others = levels
    by_value: dict[str, list[Machine]] = {}
    without: list[Machine] = []
    for machine in machines:
        value = domain(level, machine.node.labels)
        (without if value is None else by_value.setdefault(value, [])).append(machine)

    def below(inside: list[Machine], *, lacking: bool) -> tuple[tuple[Branch, ...], tuple[Machine, ...]]:
        return _split(inside, others, reservations, lacking=lacking, with_machines=with_machines)

    named = [
        Branch(level, value, count(inside, reservations), *below(inside, lacking=False))
        for value, inside in sorted(by_value.items(), key=lambda item: natural(item[0]))
    ]
    if not without:
        return tuple(named), ()
    branches, own = below(without, lacking=True)
    if lacking:
        return (*named, *branches), own
    return (*named, Branch(level, None, count(without, reservations), branches, own)), ()


def _fit(machines: Sequence[Machine], topology: Topology) -> tuple[int, int]:
    carried = [sum(domain(level, machine.node.labels) is not None for machine in machines) for level in topology.levels]
    return sum(carried), -carried.count(0)
