"""The known label keys of Nodes.

Sources: CoreWeave's pages "InfiniBand and RoCE labels", "Workload Scheduling on CKS", "Day 1" of the Node lifecycle and
"Kueue"; Topograph's "Node Labels and Annotations", before and after version 1.0, which also lists the labels of other
clouds; Amazon's "Topology-aware scheduling" of SageMaker HyperPod; the draft of KEP-4962 "Standardizing the
Representation of Cluster Network Topology"; "Well-Known Labels, Annotations and Taints" of Kubernetes.
"""

from __future__ import annotations

from policies.vocabulary.key import ANY, Form, Key

REGION, ZONE, HOSTNAME = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BACKEND, IB, NODE = "backend.coreweave.cloud/", "ib.coreweave.cloud/", "node.coreweave.cloud/"
FLAVOR, LEAFGROUP, IB_FABRIC = f"{BACKEND}flavor", f"{BACKEND}leafgroup", f"{IB}fabric"
RACK, STATE, RESERVED, RESERVED_DESIRED = (
    f"{NODE}{name}" for name in ("rack", "state", "reserved", "reserved-desired")
)
INSTANCE_TYPE, OLD_TYPE = "node.kubernetes.io/instance-type", "node.kubernetes.io/type"
CLIQUE, ACCELERATOR = "nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"
COREWEAVE_NVLINK, ULTRASERVER = "ds.coreweave.com/nvlink.domain", "topology.k8s.aws/ultraserver-id"
CAPACITY_BLOCK = "topology.k8s.aws/capacity-block-id"
STANDARD = tuple(f"network.topology.kubernetes.io/{name}" for name in ("datacenter", "spine", "block", "accelerator"))
"""The keys of KEP-4962, farthest first. It is a draft; some clusters have them already."""

RENAMED = ("fabric", "superpod", "leafgroup", "leafgroup-name", "speed.current", "speed.expected")
"""The names of labels that exist under both `backend.coreweave.cloud/` and `ib.coreweave.cloud/`."""

TOPOGRAPH = ("network.topology.nvidia.com/", "fabric.topograph.run/", "accelerator.topograph.run/")
"""The prefixes of the labels that Topograph writes. It shortens values that are too long."""

PRODUCTION, CONTROL_PLANE = "production", "control-plane"
NO_WORKLOADS = ("onboard", "seatrial", "zap", "zapfail", "test", "triage", "rma", "debug")
"""The states of a CoreWeave Node in which no workload runs on it."""

NUMBER = Form("[0-9]+", "a number")
FABRICS = Form(called="infiniband or roce", choices=("infiniband", "roce"))
STATES = Form(called=f"{PRODUCTION} on Nodes for workloads", choices=(PRODUCTION, *NO_WORKLOADS))
UUID_AND_CLIQUE = Form(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\.[0-9]+", "ClusterUUID.CliqueID")
INSTANCE_ID = Form("[a-z0-9]+(-[a-z0-9]+)*", "an Instance ID, such as gd-8xh100ib-i128")

_PLACES = {"fabric": ANY, "superpod": NUMBER, "leafgroup": NUMBER, "leafgroup-name": ANY}


def _fabric(prefix: str) -> tuple[Key, ...]:
    """The keys that InfiniBand and RoCE share."""
    places = (Key(f"{prefix}{name}", form=form) for name, form in _PLACES.items())
    speeds = (
        Key(f"{prefix}speed.{name}", "measure", instead=BACKEND + "leafgroup") for name in ("current", "expected")
    )
    neighbors = Key(f"{prefix}neighbors.*", "measure", instead=BACKEND + "leafgroup")
    return (*places, *speeds, neighbors)


def _places(prefix: str, *names: str) -> tuple[Key, ...]:
    return tuple(Key(f"{prefix}/{name}") for name in names)


COREWEAVE = (
    *_fabric(BACKEND),
    Key(FLAVOR, "trait", FABRICS, instead=BACKEND + "fabric"),
    *_fabric(IB),
    *(Key(f"{IB}{name}", "measure", instead=LEAFGROUP) for name in ("ports.*", "speed")),
    Key(RACK, form=NUMBER),
    Key(COREWEAVE_NVLINK),
    Key(STATE, "trait", STATES, instead=RACK),
    *(Key(key, "trait", instead=RACK) for key in (RESERVED, RESERVED_DESIRED)),
    *(Key(f"{NODE}{name}", "trait", instead=RACK) for name in ("class", "type", "cpu", "pending-state", "version")),
)
CLOUDS = (
    *_places("topology.k8s.aws", *(f"network-node-layer-{layer}" for layer in (1, 2, 3)), "ultraserver-id", "zone-id"),
    Key(CAPACITY_BLOCK, "trait", instead=f"{CLIQUE} or topology.k8s.aws/network-node-layer-3"),
    *_places("oci.oraclecloud.com", "host.network_block_id", "host.rack_id", "host.gpu_memory_fabric_id", "host.id"),
    *_places("cloud.google.com", *(f"gce-topology-{part}" for part in ("block", "subblock", "host"))),
)
NVIDIA = (
    *_places("network.topology.nvidia.com", "core", "spine", "leaf", "accelerator"),
    Key("fabric.topograph.run/tier-*"),
    *_places("accelerator.topograph.run", "domain", "sub-domain"),
    Key(CLIQUE, form=UUID_AND_CLIQUE),
)
KUBERNETES = (
    *map(Key, (REGION, ZONE, HOSTNAME, *STANDARD)),
    Key(INSTANCE_TYPE, "trait", instead=ZONE),
    Key(OLD_TYPE, "trait", INSTANCE_ID, instead=ZONE),
    *(Key(f"kubernetes.io/{name}", "trait", instead=HOSTNAME) for name in ("os", "arch")),
    Key("failure-domain.beta.kubernetes.io/region", replaced=REGION),
    Key("failure-domain.beta.kubernetes.io/zone", replaced=ZONE),
    Key("beta.kubernetes.io/instance-type", "trait", instead=ZONE, replaced=INSTANCE_TYPE),
)
ALL: tuple[Key, ...] = (*COREWEAVE, *CLOUDS, *NVIDIA, *KUBERNETES)
