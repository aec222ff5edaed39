"""The built-in topologies, whole."""

from __future__ import annotations

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.topology.topology import BUILT_IN, Level

_REGION, _ZONE, _HOST = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_BACKEND, _NVIDIA = "backend.coreweave.cloud", "network.topology.nvidia.com"
_COREWEAVE = [
    *(_REGION, _ZONE, f"{_BACKEND}/fabric", f"{_BACKEND}/superpod", f"{_BACKEND}/leafgroup"),
    *("node.coreweave.cloud/rack", _HOST),
]
_CLIQUES = ["nvidia.com/nvl-domain", "nvidia.com/gpu.clique"]
_TABLE = {
    "coreweave": _COREWEAVE,
    "coreweave-infiniband": _COREWEAVE,
    "coreweave-roce": _COREWEAVE,
    "topograph": [f"{_NVIDIA}/core", f"{_NVIDIA}/spine", f"{_NVIDIA}/leaf", _HOST],
    "topograph-nvlink": [
        *(f"{_NVIDIA}/core", f"{_NVIDIA}/spine", f"{_NVIDIA}/leaf", f"{_NVIDIA}/accelerator"),
        *(*_CLIQUES, _HOST),
    ],
    "topograph-v1": [
        *(f"fabric.topograph.run/tier-{tier}" for tier in (3, 2, 1, 0)),
        *("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain", _HOST),
    ],
    "aws": [_ZONE, *(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)), _HOST],
    "oci": [_ZONE, "oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id", _HOST],
    "gcp": [
        _ZONE,
        *(f"cloud.google.com/gce-topology-{part}" for part in ("block", "subblock", "host")),
        _HOST,
    ],
    "kubernetes": [_REGION, _ZONE, _HOST],
    "kubernetes-network": [
        *(_REGION, _ZONE),
        *(f"network.topology.kubernetes.io/{name}" for name in ("datacenter", "spine", "block", "accelerator")),
        _HOST,
    ],
    "nvlink": [*_CLIQUES, _HOST],
    "aws-nvlink": [
        *(_ZONE, *(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))),
        *("topology.k8s.aws/ultraserver-id", "nvidia.com/gpu.clique", _HOST),
    ],
    "oci-nvlink": [
        _ZONE,
        *(f"oci.oraclecloud.com/host.{part}" for part in ("network_block_id", "rack_id")),
        *_CLIQUES,
        _HOST,
    ],
    "gcp-nvlink": [
        _ZONE,
        *(f"cloud.google.com/gce-topology-{part}" for part in ("block", "subblock")),
        *_CLIQUES,
        _HOST,
    ],
    "coreweave-nvlink": [*_COREWEAVE[:-1], *_CLIQUES, _HOST],
}


def _flavor(name: str) -> LabelSelector:
    return LabelSelector((SelectorRequirement("backend.coreweave.cloud/flavor", "In", (name,)),))


def test_the_whole_table() -> None:
    """Every topology has its levels, farthest first, and no topology is missing or there twice."""
    assert [(each.name, [level.name for level in each.levels]) for each in BUILT_IN] == list(_TABLE.items())


def test_what_topologies_require_of_nodes() -> None:
    """InfiniBand and RoCE ask for a flavor, the others for nothing; none of them is for a pool or in the cluster."""
    required = {"coreweave-infiniband": _flavor("infiniband"), "coreweave-roce": _flavor("roce")}

    assert {each.name: each.requirement for each in BUILT_IN} == {
        name: required.get(name, EVERYTHING) for name in _TABLE
    }
    assert {(each.pool, each.in_cluster, each.source) for each in BUILT_IN} == {(None, False, "built in")}


def test_the_nvlink_domain() -> None:
    """Only topograph-nvlink has one: the clique, else the accelerator. CoreWeave's leafgroups have names beside."""
    nvlink = Level("nvlink", ("nvidia.com/gpu.clique", f"{_NVIDIA}/accelerator"), distinct=True, independent=True)

    keys = tuple(f"{prefix}.coreweave.cloud/leafgroup-name" for prefix in ("backend", "ib"))
    named = Level(keys[0], keys, beside=f"{_BACKEND}/leafgroup")
    coreweave = {each.name: (named,) for each in BUILT_IN if each.name.startswith("coreweave")}

    assert {each.name: each.unions for each in BUILT_IN if each.unions} == {"topograph-nvlink": (nvlink,), **coreweave}
    assert {each.position(named) for each in BUILT_IN if each.name in coreweave} == {4}


def test_which_levels_are_independent() -> None:
    """NVLink runs beside the network: its domains are inside none of the network's."""
    names = ("accelerator", "nvl-domain", "gpu.clique", "domain", "sub-domain")
    found = {(each.name, each.called(one)) for each in BUILT_IN for one in each.levels if one.independent}

    assert found == {
        (each.name, each.called(one)) for each in BUILT_IN for one in each.levels if each.called(one) in names
    }


def test_the_nvl_domain_of_aws() -> None:
    """SageMaker HyperPod names it by a label of AWS; another Node's is that of its clique."""
    (aws,) = (each for each in BUILT_IN if each.name == "aws-nvlink")
    domain = aws.find("nvl-domain")

    assert domain is not None
    assert domain.keys == ("topology.k8s.aws/ultraserver-id", "nvidia.com/nvl-domain")
    assert [aws.find(name) for name in ("ultraserver-id", *domain.keys)] == [domain] * 3


def test_every_short_name_is_unique() -> None:
    """Each level can be called by its short name, and by its whole key, and is then the same one."""
    for topology in BUILT_IN:
        for level in topology.levels:
            assert [topology.find(name) for name in (level.short, *level.keys)] == [level] * (1 + len(level.keys))
            assert topology.called(level) == (level.alias or level.short)
