"""The topologies that come with the service, by the labels that clouds and Topograph write.

Sources: CoreWeave's page "InfiniBand and RoCE labels"; Topograph's "Node Labels and Annotations", whose version 1.0
renamed its keys, and which lists the labels of other clouds.
"""

from __future__ import annotations

from policies.engine.match import LabelSelector, SelectorRequirement
from policies.topology.level import BACKEND, FLAVOR, HOSTNAME, REGION, ZONE, Level, level
from policies.topology.topology import Topology

CLIQUE, ACCELERATOR = "nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"
NVLINK = Level("nvlink", (CLIQUE, ACCELERATOR), distinct=True)
"""The NVLink domain: the clique where the Node has one, else what Topograph calls the accelerator."""

_COREWEAVE = (
    *(REGION, ZONE),
    *(f"{BACKEND}{name}" for name in ("fabric", "superpod", "leafgroup")),
    *("node.coreweave.cloud/rack", HOSTNAME),
)
_SWITCHES = tuple(f"network.topology.nvidia.com/{tier}" for tier in ("core", "spine", "leaf"))
_TIERS = tuple(f"fabric.topograph.run/tier-{tier}" for tier in (3, 2, 1, 0))
_V1 = (*_TIERS, "accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain", HOSTNAME)


def _topology(name: str, *keys: str, flavor: str = "", unions: tuple[Level, ...] = ()) -> Topology:
    requirement = (SelectorRequirement(FLAVOR, "In", (flavor,)),) if flavor else ()
    return Topology(name, tuple(map(level, keys)), unions, LabelSelector(requirement))


BUILT_IN: tuple[Topology, ...] = (
    _topology("coreweave", *_COREWEAVE),
    _topology("coreweave-infiniband", *_COREWEAVE, flavor="infiniband"),
    _topology("coreweave-roce", *_COREWEAVE, flavor="roce"),
    _topology("topograph", *_SWITCHES, HOSTNAME),
    _topology("topograph-nvlink", *_SWITCHES, ACCELERATOR, CLIQUE, HOSTNAME, unions=(NVLINK,)),
    _topology("topograph-v1", *_V1),
    _topology("aws", ZONE, *(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)), HOSTNAME),
    _topology("oci", ZONE, *(f"oci.oraclecloud.com/host.{part}" for part in ("network_block_id", "rack_id")), HOSTNAME),
    _topology(
        "gcp", ZONE, *(f"cloud.google.com/gce-topology-{part}" for part in ("block", "subblock", "host")), HOSTNAME
    ),
    _topology("kubernetes", REGION, ZONE, HOSTNAME),
)
