"""All known topologies by name, and the built-in ones.

The built-in topologies use the labels that clouds and Topograph write. Sources: CoreWeave's page "InfiniBand and RoCE
labels"; Topograph's "Node Labels and Annotations", whose version 1.0 renamed its keys, and which lists the labels of
other clouds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from msgspec import Struct, structs

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.nvlink import NVL_DOMAIN
from policies.topology.topology import Level, Topology, level, shortened
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
    ULTRASERVER,
    ZONE,
)

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
        told = "; and ".join(map(_told, (self.first, self.second)))
        return f'topology "{self.first.name}" is defined twice, with different levels: {told}. Keep one.'


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


def _told(topology: Topology) -> str:
    return f"{topology.source} ({', '.join(level.name for level in topology.levels)})"
