"""Nodes as a tree of domains, level by level, with the total and the free accelerators of each.

A domain is identified by its value and the domains around it, because numbers repeat across fabrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from policies.topology.nodes.machine import Machine
from policies.topology.term import alternatives, meets
from policies.topology.topology import Level, Topology, natural
from policies.vocabulary import HOSTNAME, REGION, ZONE

# Nodes have these labels on every cloud, so they do not show which topology fits.
COMMON = frozenset({REGION, ZONE, HOSTNAME})
_USUAL = "coreweave"

Path = tuple[tuple[Level, str], ...]
"""The domains that a Node is in, farthest first, each as level and value."""


class Count(Struct, frozen=True):
    """The Nodes and accelerators in a domain. total, used, free: accelerators; the last two None if Pods are not known.

    closed: Nodes that accept no new Pods. obstacles: how many of them for which reason. flaws: how many Nodes have
    which kind of flaw of the network.
    """

    nodes: int
    closed: int
    total: int
    used: int | None
    free: int | None
    obstacles: tuple[tuple[str, int], ...] = ()
    flaws: tuple[tuple[str, int], ...] = ()

    @property
    def unavailable(self) -> int:
        """The unused accelerators on closed Nodes, which no Pod can get; 0 if Pods are not known."""
        return 0 if self.used is None or self.free is None else max(0, self.total - self.used - self.free)


class Branch(Struct, frozen=True):
    """A domain of a level. A value of None stands for Nodes that lack the level. The root has no level.

    machines: the Nodes that are in no branch; empty if the tree ends above Nodes.
    """

    level: Level | None
    value: str | None
    count: Count
    branches: tuple[Branch, ...] = ()
    machines: tuple[Machine, ...] = ()


def tree(machines: Sequence[Machine], topology: Topology, lowest: Level | None = None) -> Branch:
    """The tree of all Nodes, without levels that no Node has. lowest: the last level of the tree.

    Nodes that lack a level share a branch, which goes on at the next level that they have. The Nodes themselves stand
    for the hostname level.
    """
    levels = [level for level in present(machines, topology) if level.name != HOSTNAME]
    with_machines = lowest is None or lowest.name == HOSTNAME
    if lowest is not None:
        levels = [level for level in levels if topology.position(level) <= topology.position(lowest)]
    branches, own = _split(machines, levels, lacking=False, with_machines=with_machines)
    return Branch(None, None, count(machines), branches, own)


def line(branch: Branch) -> tuple[Branch, ...]:
    """The branch and those below it, down to the first that splits. All contain the same Nodes."""
    chain = [branch]
    while len(chain[-1].branches) == 1 and not chain[-1].machines:
        chain.append(chain[-1].branches[0])
    return tuple(chain)


def count(machines: Iterable[Machine]) -> Count:
    """The count of Nodes and their accelerators."""
    counted = tuple(machines)
    known = all(machine.used is not None for machine in counted)
    closed = Counter(obstacles[0].reason for machine in counted if (obstacles := machine.obstacles))
    flawed = Counter(kind for machine in counted for kind in dict.fromkeys(flaw.kind for flaw in machine.flaws))
    return Count(
        len(counted),
        closed.total(),
        sum(machine.total for machine in counted),
        sum(machine.used or 0 for machine in counted) if known else None,
        sum(machine.free or 0 for machine in counted) if known else None,
        tuple(sorted(closed.items(), key=lambda item: (-item[1], item[0]))),
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


def _split(
    machines: Sequence[Machine],
    levels: Sequence[Level],
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
        return _split(inside, others, lacking=lacking, with_machines=with_machines)

    named = [
        Branch(level, value, count(inside), *below(inside, lacking=False))
        for value, inside in sorted(by_value.items(), key=lambda item: natural(item[0]))
    ]
    if not without:
        return tuple(named), ()
    branches, own = below(without, lacking=True)
    if lacking:
        return (*named, *branches), own
    return (*named, Branch(level, None, count(without), branches, own)), ()


def _fit(machines: Sequence[Machine], topology: Topology) -> tuple[int, int]:
    carried = [sum(domain(level, machine.node.labels) is not None for machine in machines) for level in topology.levels]
    return sum(carried), -carried.count(0)
