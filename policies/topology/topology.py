"""Topologies: ordered levels, farthest first, and the Nodes that they apply to; all by name, and those built in.

A level is the key of a node label, with equivalent keys under which Nodes may have the same label. Sources: CoreWeave's
page "InfiniBand and RoCE labels" for renamed keys; Topograph's "Node Labels and Annotations" for long values, the keys
of its version 1.0, the labels of other clouds, and "Choosing between accelerator and nvidia.com/gpu.clique for
scheduling".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import Struct, structs

from policies.cached import cached_property
from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.kubernetes import name
from policies.vocabulary import (
    ACCELERATOR,
    BACKEND,
    CLIQUE,
    FLAVOR,
    HOSTNAME,
    LEAFGROUP,
    RACK,
    REGION,
    STANDARD,
    TOPOGRAPH,
    ULTRASERVER,
    ZONE,
    equivalent,
    no_place,
)

_DIGITS = re.compile(r"([0-9]+)")
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class Level(Struct, frozen=True):
    """A level. keys: its labels on Nodes; if a Node has several, the first one counts.

    name: a key, or the name of a union. alias: a further name. distinct: whether the values under the keys differ, so
    that a later key counts only if the earlier ones are absent. beside: the key of the level whose domains these are,
    under other values. shortened: whether Topograph writes it under a key of its configuration. independent: whether
    its domains are inside none of the farther levels but region and zone, and around no nearer one but a Node.
    """

    name: str
    keys: tuple[str, ...]
    alias: str = ""
    distinct: bool = False
    beside: str = ""
    shortened: bool = False
    independent: bool = False

    @property
    def short(self) -> str:
        """The part of the name behind the slash."""
        return self.name.rpartition("/")[2]

    def value(self, labels: Mapping[str, str]) -> str | None:
        """The value of a Node with these labels; None if it has none of the keys."""
        return next((labels[key] for key in self.keys if key in labels), None)


def level(key: str, alias: str = "") -> Level:
    """The level of a node label key, with all equivalent keys."""
    return Level(key, equivalent(key), alias)


def value_problem(value: str) -> str:
    """Why a text is not a valid label value; empty if it is valid."""
    if len(value) > name.NAME_LENGTH:
        return f"has {len(value)} characters, and the value of a label has {name.NAME_LENGTH} at most"
    if not value or name.label_value(value):
        return "is no value of a label: letters, digits, and within them - _ . are allowed"
    return ""


def label_value(level: Level, key: str, value: str) -> str:
    """The value as Nodes have it. Topograph replaces values of over 63 characters by `x` and their hash."""
    is_shortened = len(value) > name.NAME_LENGTH and (level.shortened or key.startswith(TOPOGRAPH))
    return f"x{fnv1a_64(value.encode()):x}" if is_shortened else value


def shortened(topology: Topology, prefixes: tuple[str, ...]) -> Topology:
    """The topology with levels whose long values Topograph shortens, by the prefixes of keys that it writes."""
    written = [any(key.startswith(prefixes) for key in level.keys) for level in topology.levels]
    pairs = zip(topology.levels, written, strict=True)
    levels = tuple(structs.replace(level, shortened=is_written) for level, is_written in pairs)
    return replace(topology, levels=levels) if any(written) else topology


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key that orders numbers in names by their value."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text) if part)


def fnv1a_64(data: bytes) -> int:
    """The 64-bit FNV-1a hash. Source: RFC 9923, "The FNV Non-Cryptographic Hash Algorithm"."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def no_level(key: str) -> str:
    """Why a known node label is not a level; empty for places, and for labels that are not known."""
    why = no_place(key)
    return f"{why}, and is no level" if why else ""


@dataclass(frozen=True)
class Topology:
    """Levels, farthest first.

    unions: levels whose keys belong to several levels, or that stand beside one; each has the position of its first
    key, or of that one. requirement: the labels
    that every Node for a placement must have. pool: the Nodes that the topology applies to; None if not specified.
    source: where it is defined, for messages. in_cluster: whether it is an object of the cluster, which schedulers that
    read the annotations themselves know. objects: whose object it is, such as Kueue.
    """

    name: str
    levels: tuple[Level, ...]
    unions: tuple[Level, ...] = ()
    requirement: LabelSelector = EVERYTHING
    pool: LabelSelector | None = None
    source: str = "built in"
    in_cluster: bool = False
    objects: tuple[str, ...] = ()

    def find(self, name: str) -> Level | None:
        """The level with a key, an alias or a short name; None if no level or several levels have it."""
        return self._names.get(name)

    def position(self, level: Level) -> int:
        """The position of a level; 0 is the farthest."""
        return self._positions[level.keys[0]]

    @property
    def lowest(self) -> Level:
        """The nearest level whose domains hold several Nodes; the last one if there is no such level."""
        several = [level for level in self.levels if HOSTNAME not in level.keys]
        return several[-1] if several else self.levels[-1]

    def below(self, level: Level | None) -> tuple[Level, ...]:
        """The levels that are nearer than a level; all levels for None."""
        return self.levels[0 if level is None else self.position(level) + 1 :]

    def above(self, level: Level) -> tuple[Level, ...]:
        """The levels that are farther than a level."""
        return self.levels[: self.position(level)]

    def called(self, level: Level) -> str:
        """The shortest name of a level."""
        names = [level.alias, level.short, level.name]
        return next(name for name in names if name and self._names.get(name) is level)

    def called_all(self, levels: Iterable[Level]) -> str:
        """The shortest names of levels, separated by commas."""
        return ", ".join(map(self.called, levels))

    @property
    def in_order(self) -> str:
        """A sentence that lists the levels."""
        return f'Levels of topology "{self.name}", farthest first: {self.called_all(self.levels)}.'

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name of every level, short names first."""
        return tuple(dict.fromkeys((*map(self.called, (*self.levels, *self.unions)), *self._names)))

    @cached_property
    def _names(self) -> Mapping[str, Level]:
        levels = (*self.levels, *self.unions)
        shorts = Counter(level.short for level in levels)
        names = {level.short: level for level in levels if shorts[level.short] == 1}
        names |= {level.alias: level for level in levels if level.alias}
        # A key is a name in any case. The keys of a union are those of other levels.
        return names | {level.name: level for level in self.unions} | {k: lv for lv in self.levels for k in lv.keys}

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        positions = {level.keys[0]: position for position, level in enumerate(self.levels)}
        return positions | {other.keys[0]: positions[other.beside] for other in self.unions if other.beside}


# No label of Nodes names an NVL Domain: several cliques have the same ClusterUUID before the dot. A Node in a clique
# counts as one with a further label, by which domains are chosen like those of other levels. What is written for a Pod
# names the cliques that there are.
NVL_DOMAIN = "nvidia.com/nvl-domain"
"""The label that is not there: the ClusterUUID of a clique."""

Cliques = Mapping[str, Sequence[str]]
"""The cliques of each NVL Domain."""


def nvl_domain(clique: str) -> str:
    """The NVL Domain of a clique; empty for a value of another form."""
    return clique.rpartition(".")[0]


def with_nvl_domain(labels: dict[str, str]) -> dict[str, str]:
    """The labels of a Node, with its NVL Domain if it is in a clique."""
    clique = labels.get(CLIQUE)
    return labels if clique is None or not nvl_domain(clique) else {**labels, NVL_DOMAIN: nvl_domain(clique)}


def cliques_of(nodes: Iterable[Mapping[str, str]]) -> Cliques:
    """The cliques of each NVL Domain, by the labels of Nodes."""
    found: dict[str, set[str]] = {}
    for labels in nodes:
        if NVL_DOMAIN in labels:
            found.setdefault(labels[NVL_DOMAIN], set()).add(labels[CLIQUE])
    return {name: sorted(members) for name, members in found.items()}


def in_cliques(requirement: SelectorRequirement, known: Cliques) -> SelectorRequirement:
    """A requirement as Nodes can meet it. A domain of which no clique is known stays, and is met by none."""
    if requirement.key != NVL_DOMAIN:
        return requirement
    values = (clique for value in requirement.values for clique in known.get(value, (value,)))
    return structs.replace(requirement, key=CLIQUE, values=tuple(dict.fromkeys(values)))


NVLINK = Level("nvlink", (CLIQUE, ACCELERATOR), distinct=True, independent=True)
"""The NVLink domain: the clique if the Node has one, else the label that Topograph calls accelerator."""

LEAFGROUP_NAME = structs.replace(level(f"{LEAFGROUP}-name"), beside=LEAFGROUP)
"""The leafgroups by their names for people, which are other values under another key."""

_COREWEAVE = (
    *(REGION, ZONE),
    *(f"{BACKEND}{name}" for name in ("fabric", "superpod", "leafgroup")),
    *(RACK, HOSTNAME),
)
_SWITCHES = tuple(f"network.topology.nvidia.com/{tier}" for tier in ("core", "spine", "leaf"))
_TIERS = tuple(f"fabric.topograph.run/tier-{tier}" for tier in (3, 2, 1, 0))
_AWS = tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))
_OCI = tuple(f"oci.oraclecloud.com/host.{part}" for part in ("network_block_id", "rack_id"))
_GCP = tuple(f"cloud.google.com/gce-topology-{part}" for part in ("block", "subblock", "host"))
_CLIQUES = (NVL_DOMAIN, CLIQUE)
_AWS_NVL = Level(ULTRASERVER, (ULTRASERVER, NVL_DOMAIN), NVL_DOMAIN.rpartition("/")[2], distinct=True, independent=True)
"""The NVL Domain on AWS: HyperPod has a label for it; elsewhere it is told by the clique."""
_ACCELERATORS_V1 = ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain")
_V1 = (*_TIERS, *_ACCELERATORS_V1, HOSTNAME)


# NVLink runs beside the network: an NVL Domain may span two leaves.
_INDEPENDENT = frozenset({ACCELERATOR, NVL_DOMAIN, CLIQUE, *_ACCELERATORS_V1, STANDARD[3]})


def _topology(name: str, *keys: str | Level, flavor: str = "", unions: tuple[Level, ...] = ()) -> Topology:
    requirement = (SelectorRequirement(FLAVOR, "In", (flavor,)),) if flavor else ()
    others = (LEAFGROUP_NAME,) if LEAFGROUP in keys else ()
    levels = tuple(
        key if isinstance(key, Level) else structs.replace(level(key), independent=key in _INDEPENDENT) for key in keys
    )
    return Topology(name, levels, (*unions, *others), LabelSelector(requirement))


BUILT_IN: tuple[Topology, ...] = (
    _topology("coreweave", *_COREWEAVE),
    _topology("coreweave-infiniband", *_COREWEAVE, flavor="infiniband"),
    _topology("coreweave-roce", *_COREWEAVE, flavor="roce"),
    _topology("topograph", *_SWITCHES, HOSTNAME),
    _topology("topograph-nvlink", *_SWITCHES, ACCELERATOR, NVL_DOMAIN, CLIQUE, HOSTNAME, unions=(NVLINK,)),
    _topology("topograph-v1", *_V1),
    _topology("aws", ZONE, *_AWS, HOSTNAME),
    _topology("oci", ZONE, *_OCI, HOSTNAME),
    _topology("gcp", ZONE, *_GCP, HOSTNAME),
    _topology("kubernetes", REGION, ZONE, HOSTNAME),
    _topology("kubernetes-network", REGION, ZONE, *STANDARD, HOSTNAME),
    _topology("nvlink", *_CLIQUES, HOSTNAME),
    _topology("aws-nvlink", ZONE, *_AWS, _AWS_NVL, CLIQUE, HOSTNAME),
    _topology("oci-nvlink", ZONE, *_OCI, *_CLIQUES, HOSTNAME),
    _topology("gcp-nvlink", ZONE, *_GCP[:2], *_CLIQUES, HOSTNAME),
    _topology("coreweave-nvlink", *_COREWEAVE[:-1], *_CLIQUES, HOSTNAME),
)


class Clash(Struct, frozen=True):
    """Two different topologies with the same name. The first one counts."""

    first: Topology
    second: Topology

    def __str__(self) -> str:
        """The message, with the sources and the levels of both."""
        if _keys(self.first) == _keys(self.second):
            return (
                f'topology "{self.first.name}" is defined twice, with different node requirements or pools: '
                f"{self.first.source}, and {self.second.source}. Keep one of them."
            )
        pair = (self.first, self.second)
        both = "; and ".join(f"{one.source} ({', '.join(level.name for level in one.levels)})" for one in pair)
        return f'topology "{self.first.name}" is defined twice, with different levels: {both}. Keep one.'


class Catalog:
    """Topologies by name. Definitions with the same name and levels are merged.

    topologies: in order of precedence. clashes: the definitions that are left out because an earlier one differs.
    """

    def __init__(self, topologies: Iterable[Topology]) -> None:
        self.by_name: dict[str, Topology] = {}
        clashes = []
        for topology in topologies:
            known = self.by_name.get(topology.name)
            merged = topology if known is None else _merged(known, topology)
            if merged is not None:
                self.by_name[topology.name] = merged
            elif known is not None:
                clashes.append(Clash(known, topology))
        self.clashes = tuple(clashes)

    def find(self, name: str) -> Topology | None:
        """The topology with a name, or None."""
        return self.by_name.get(name)

    def joined(self, more: tuple[Topology, ...], topograph: tuple[str, ...] = ()) -> Catalog:
        """A catalog of these topologies and more, which have a lower precedence. topograph: see `shortened`."""
        return Catalog((*self.by_name.values(), *(shortened(one, topograph) for one in more))) if more else self


def _merged(first: Topology, second: Topology) -> Topology | None:
    """The two definitions as one topology; None if they contradict each other."""
    if _keys(first) != _keys(second):
        return None
    requirement, pool = first.requirement, first.pool
    if requirement == EVERYTHING:
        requirement = second.requirement
    elif second.requirement not in (EVERYTHING, requirement):
        return None
    if pool is None:
        pool = second.pool
    elif second.pool not in (None, pool):
        return None
    # The object in the cluster has the keys and aliases that a scheduler knows, so they come before the other's.
    leading, other = (second, first) if second.in_cluster and not first.in_cluster else (first, second)
    pairs = zip(leading.levels, other.levels, strict=True)
    levels = tuple(structs.replace(level, alias=level.alias or twin.alias) for level, twin in pairs)
    return replace(
        first,
        levels=levels,
        unions=first.unions or second.unions,
        requirement=requirement,
        pool=pool,
        source=f"{first.source}; {second.source}",
        in_cluster=first.in_cluster or second.in_cluster,
        objects=(*first.objects, *second.objects),
    )


def _keys(topology: Topology) -> list[tuple[str, ...]]:
    return [level.keys for level in topology.levels]
