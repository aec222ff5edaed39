"""Nodes as a tree of domains, with their accelerators, what is wrong with the network, and their numbers as data.

A domain is identified by its value and the domains around it, because numbers repeat across fabrics.

Sources: CoreWeave's pages "InfiniBand and RoCE labels", and about SUNK for its second name for GPUs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Node
from policies.engine.violation import listed
from policies.kubernetes.name import matches_glob
from policies.topology.nodes.manifest import (
    NodeManifest,
    Obstacle,
    PodManifest,
    allocatable,
    counted,
    obstacles,
    requests,
)
from policies.topology.placement import alternatives, meets
from policies.topology.topology import Level, Topology, natural
from policies.vocabulary import BACKEND, FLAVOR, HOSTNAME, IB, REGION, ZONE

Kind = Literal["slow", "miswired", "split", "incomplete", "mixed"]
Labels = Mapping[str, str]

MEANINGS: Final[Mapping[Kind, str]] = {
    "slow": "the link is slower than it should be",
    "miswired": "a port is connected to another switch port than it should be",
    "split": "the Nodes of one leafgroup are in several superpods",
    "incomplete": "a label is missing that other Nodes have",
    "mixed": "backend and ib labels do not say the same",
}
"""What each kind of flaw means."""

_PREFIXES = (BACKEND, IB)
_LEVELS = ("fabric", "superpod", "leafgroup")
_SPEEDS = ("speed.current", "speed.expected")
_NEIGHBOR = re.compile(r"neighbors\.(expected|current)\.(.+)\.(device|port-id|port-name)\Z")
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)", re.IGNORECASE)
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PORTS_SHOWN = 2


class Flaw(Struct, frozen=True, order=True):
    """One thing that is wrong with a Node's place in the network. text: what was found, and what there should be."""

    kind: Kind
    text: str


def flaws(nodes: Iterable[Node]) -> Mapping[str, tuple[Flaw, ...]]:
    """The flaws of Nodes by name; Nodes without one are not in it."""
    connected: dict[str, Labels] = {}
    # The names that Nodes of each kind of network carry; under None those of all, for Nodes that do not say.
    carried: dict[str | None, set[str]] = {None: set()}
    for node in nodes:
        if labels := {key: value for key, value in node.labels.items() if key.startswith(_PREFIXES)}:
            connected[node.name] = labels
            flavor = labels.get(FLAVOR)
            names = {name for name in (*_LEVELS, *_SPEEDS) if _value(labels, name)}
            for kind in (None, flavor):
                carried.setdefault(kind, set()).update(names, ("flavor",) if flavor else ())
    # The superpods that each leafgroup is in. Numbers of leafgroups repeat across fabrics; where most numbers of a
    # fabric are in several superpods, each superpod counts its own: then only names tell.
    superpods: dict[tuple[str, ...], set[str]] = {}
    for own in connected.values():
        superpod = _value(own, "superpod")
        if superpod and _value(own, "leafgroup"):
            superpods.setdefault(_leafgroup(own), set()).add(superpod)
    split: dict[str, list[bool]] = {}
    for (fabric, _, name), there in superpods.items():
        if not name:
            split.setdefault(fabric, []).append(len(there) > 1)
    numbered = {fabric for fabric, several in split.items() if 2 * sum(several) < len(several)}
    superpods = {group: there for group, there in superpods.items() if group[2] or group[0] in numbered}
    flawed: dict[str, tuple[Flaw, ...]] = {}
    for name, own in connected.items():
        if of_node := tuple(_of_node(own, carried[own.get(FLAVOR)], superpods)):
            flawed[name] = of_node
    return flawed


def _of_node(labels: Labels, carried: set[str], superpods: Mapping[tuple[str, ...], set[str]]) -> Iterator[Flaw]:
    """The flaws of a Node. carried: the names that other Nodes of its network carry. superpods: of each leafgroup."""
    current, expected = (_value(labels, name) for name in _SPEEDS)
    if current and expected and current != expected:
        speed, should = _speed(current), _speed(expected)
        if speed is None or should is None or speed < should:
            yield Flaw("slow", f"speed is {current}, expected {expected}")
    yield from _miswired(labels)
    has = {name for name in (*_LEVELS, *_SPEEDS) if _value(labels, name)}
    is_placed = FLAVOR in labels or not has.isdisjoint(_LEVELS)
    missing = [name for name in _LEVELS if is_placed and name in carried and name not in has]
    if "flavor" in carried and FLAVOR not in labels and any(BACKEND + name in labels for name in _LEVELS):
        missing.append("flavor")
    if len(has.intersection(_SPEEDS)) == 1:
        missing += [name for name in _SPEEDS if name in carried and name not in has]
    if missing:
        yield Flaw("incomplete", f"no {', no '.join(missing)}")
    # Levels with two values, or of which no one prefix names all.
    both = [(name, labels.get(BACKEND + name), labels.get(IB + name)) for name in _LEVELS]
    differing = [f"{name} is {new} by backend and {old} by ib" for name, new, old in both if new and old and new != old]
    new_only = [name for name, new, old in both if new and not old]
    old_only = [name for name, new, old in both if old and not new]
    if differing:
        yield Flaw("mixed", "; ".join(differing))
    if new_only and old_only:
        yield Flaw("mixed", f"{', '.join(new_only)} by backend alone, {', '.join(old_only)} by ib alone")
    there = superpods.get(_leafgroup(labels), ())
    if len(there) > 1:
        fabric = _value(labels, "fabric")
        group = _value(labels, "leafgroup") + (f" of fabric {fabric}" if fabric else "")
        yield Flaw("split", f"leafgroup {group} is in superpods {' and '.join(sorted(there))}")


def _speed(text: str) -> float | None:
    match = _SPEED.match(text)
    return None if match is None else float(match[1]) * _FACTORS[match[2].lower()]


def _miswired(labels: Labels) -> Iterator[Flaw]:
    """The flaw of the ports that have another neighbor than they should. A port's name is not always known."""
    ends: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in labels.items():
        if match := _NEIGHBOR.match(key.partition("/")[2]):
            side, interface, what = match.groups()
            ends.setdefault((interface, what), {}).setdefault(side, value)
    wrong = [
        f"{interface} has {what} {end.get('current', 'none')}, expected {end['expected']}"
        for (interface, what), end in sorted(ends.items())
        if "expected" in end and end.get("current", end["expected"] if what == "port-name" else "") != end["expected"]
    ]
    if wrong:
        yield Flaw("miswired", listed(wrong, _PORTS_SHOWN, "; "))


def _leafgroup(labels: Labels) -> tuple[str, ...]:
    return tuple(_value(labels, name) for name in ("fabric", "leafgroup", "leafgroup-name"))


def _value(labels: Labels, name: str) -> str:
    return labels.get(BACKEND + name) or labels.get(IB + name) or ""


class Machine(Struct, frozen=True):
    """A Node. total: its accelerators. used: those that Pods hold; None if Pods are not known.

    flaws: what is wrong with its place in the network.
    """

    node: Node
    total: int = 0
    used: int | None = None
    cordoned: bool = False
    ready: bool = True
    flaws: tuple[Flaw, ...] = ()

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """What keeps new Pods from the Node for now."""
        return obstacles(self.node, cordoned=self.cordoned, ready=self.ready)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the Node takes no new Pods for now, each reason once."""
        return tuple(dict.fromkeys(obstacle.reason for obstacle in self.obstacles))

    @property
    def is_open(self) -> bool:
        """Whether the Node accepts new Pods."""
        return not self.obstacles

    @property
    def free(self) -> int | None:
        """The accelerators that new Pods can get; None if Pods are not known."""
        if self.used is None:
            return None
        return max(0, self.total - self.used) if self.is_open else 0


def machines(
    nodes: Iterable[NodeManifest], pods: Iterable[PodManifest] | None, accelerators: Sequence[str]
) -> tuple[Machine, ...]:
    """The Nodes sorted by name, with the accelerators that Pods hold. accelerators: globs of resource names.

    pods: None if not known. A Node without a Ready condition counts as ready. Raises ValueError for a malformed amount.
    """
    used: Counter[str] | None = None
    if pods is not None:
        used = Counter()
        for pod in pods:
            if pod.holds:
                used[pod.spec.node_name] += held(pod, accelerators)
    known = sorted(nodes, key=lambda node: node.metadata.name)
    flawed = flaws(node.node for node in known)
    built = ((node.metadata.name, machine(node, accelerators)) for node in known)
    return tuple(
        replace(one, used=None if used is None else used[name], flaws=flawed.get(name, ())) for name, one in built
    )


def machine(node: NodeManifest, accelerators: Sequence[str]) -> Machine:
    """A Node by itself: its Pods are not known. Raises ValueError for a malformed amount."""
    total = counted(allocatable(node.status.allocatable), lambda name: matches_glob(name, accelerators))
    return Machine(node.node, total, cordoned=node.spec.unschedulable, ready=node.ready)


def held(pod: PodManifest, accelerators: Sequence[str]) -> int:
    """The accelerators that a Pod holds: see `requests`. Raises ValueError for a malformed amount."""
    return counted(requests(pod), lambda name: matches_glob(name, accelerators))


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
    branches, own = _branches(machines, levels, lacking=False, with_machines=with_machines)
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


def path(levels: Iterable[Level], labels: Mapping[str, str]) -> Path:
    """The domains of these levels that a Node is in, without levels that it lacks."""
    return tuple((level, value) for level in levels if (value := level.value(labels)) is not None)


def best_topology(machines: Sequence[Machine], topologies: Sequence[Topology]) -> Topology:
    """The topology to show Nodes by: CoreWeave's if they have its labels, else the one whose levels most Nodes have.

    Among equals it is the one with the fewest levels that no Node has, then the first one.
    """
    for topology in topologies:
        own = [level for level in topology.levels if level.name not in COMMON]
        if topology.name == _USUAL and any(level.value(m.node.labels) is not None for m in machines for level in own):
            return topology

    def fit(topology: Topology) -> tuple[int, int]:
        levels = [
            sum(level.value(machine.node.labels) is not None for machine in machines) for level in topology.levels
        ]
        return sum(levels), -levels.count(0)

    return max(topologies, key=fit)


def suited(topology: Topology, machines: Iterable[Machine]) -> list[Machine]:
    """The Nodes that are in a topology's pool and meet its requirement."""
    required, pool = alternatives((), topology.requirement), topology.pool
    labelled = ((machine, machine.node.labels) for machine in machines)
    return [
        machine for machine, labels in labelled if (pool is None or pool.matches(labels)) and meets(labels, required)
    ]


def _branches(
    machines: Sequence[Machine], levels: Sequence[Level], *, lacking: bool, with_machines: bool
) -> tuple[tuple[Branch, ...], tuple[Machine, ...]]:
    """The branches of Nodes by the remaining levels, and those without any. lacking: they lack the level above."""
    if not levels:
        return (), tuple(sorted(machines, key=lambda machine: natural(machine.node.name))) if with_machines else ()
    level, *others = levels
    by_value: dict[str, list[Machine]] = {}
    without: list[Machine] = []
    for machine in machines:
        value = level.value(machine.node.labels)
        (without if value is None else by_value.setdefault(value, [])).append(machine)

    def below(inside: list[Machine], *, lacking: bool) -> tuple[tuple[Branch, ...], tuple[Machine, ...]]:
        return _branches(inside, others, lacking=lacking, with_machines=with_machines)

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


# A ConfigMap holds texts, and CEL in Kubernetes reads no JSON: each number is a key of its own, domains are lines.
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
        name, names = _as_key(topology.name), [topology.called(level) for level in levels]
        rows = [(tuple(level.value(m.node.labels) for level in levels), amounts[m.node.name]) for m in own]
        numbers |= {f"{name}.levels": " ".join(map(_as_key, names)), **_keyed(name, _sum(amount for _, amount in rows))}
        for position, level in enumerate(levels):
            # Each with the domains around it: numbers repeat across fabrics.
            domains: dict[tuple[str | None, ...], list[tuple[int, ...]]] = {}
            for values, amount in rows:
                if values[position] is not None:
                    domains.setdefault(values[: position + 1], []).append(amount)
            sums = {values: _sum(inside) for values, inside in domains.items()}
            key = f"{name}.{_as_key(names[position])}"
            largest = tuple(map(max, zip(*sums.values(), strict=True))) or (0, 0, 0)
            numbers |= {f"{key}.domains": str(len(sums)), **_keyed(key, largest)}
            if level.name != HOSTNAME:
                lines = []  # such as `fabric=f1,superpod=3 nodes=6 gpus=48 usable=40`
                for values in sorted(sums, key=lambda values: [natural(value or "") for value in values]):
                    named = zip(names, values, strict=False)
                    place = ",".join(f"{one}={value}" for one, value in named if value is not None)
                    sizes = zip(_AMOUNTS, sums[values], strict=True)
                    lines.append(" ".join((place, *(f"{one}={size}" for one, size in sizes))))
                lists.append((key, lines))
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


def _as_key(name: str) -> str:
    return _UNFIT.sub("_", name)
