"""`cks-admission topology list` and `show`: which topologies there are, and what they are made of."""

import json
from pathlib import Path

import pytest
import yaml
from support.service.commands import last_line, run
from support.service.nodefiles import SMALL, write

_OWN = {
    "topology": {
        "topologies": [
            {
                "name": "halls",
                "levels": ["example.org/hall", {"nodeLabel": "example.org/row", "alias": "aisle"}],
                "nodeRequirement": {"matchLabels": {"example.org/kind": "gpu"}},
                "pool": {"matchLabels": {"example.org/pool": "a"}},
            }
        ],
        "files": ["more"],
    }
}
_KAI = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "fromfile"},
    "spec": {"levels": [{"nodeLabel": "example.org/block"}, {"nodeLabel": "kubernetes.io/hostname"}]},
}


_GCP = "gce-topology-block, gce-topology-subblock"
_LEAFGROUP = "backend.coreweave.cloud/leafgroup"
_NAMED = f"{_LEAFGROUP}-name names the domains of {_LEAFGROUP} by other values."
_AWS = ", ".join(f"network-node-layer-{tier}" for tier in (1, 2, 3))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a configuration that has topologies of its own, and a file with another one."""
    monkeypatch.chdir(tmp_path)
    Path("more").mkdir()
    Path("more/kai.yaml").write_text(yaml.safe_dump(_KAI), encoding="utf-8")
    Path("cks.yaml").write_text(yaml.safe_dump(_OWN), encoding="utf-8")


def test_the_built_in_topologies_are_listed() -> None:
    """Each has a line with its source and the short names of its levels, farthest first."""
    result = run("topology", "list")

    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.splitlines() == [
        "NAME                  SOURCE    LEVELS, FARTHEST FIRST",
        "coreweave             built in  region, zone, fabric, superpod, leafgroup, rack, hostname",
        "coreweave-infiniband  built in  region, zone, fabric, superpod, leafgroup, rack, hostname",
        "coreweave-roce        built in  region, zone, fabric, superpod, leafgroup, rack, hostname",
        "topograph             built in  core, spine, leaf, hostname",
        "topograph-nvlink      built in  core, spine, leaf, accelerator, nvl-domain, gpu.clique, hostname",
        "topograph-v1          built in  tier-3, tier-2, tier-1, tier-0, domain, sub-domain, hostname",
        f"aws                   built in  zone, {_AWS}, hostname",
        "oci                   built in  zone, host.network_block_id, host.rack_id, hostname",
        "gcp                   built in  zone, gce-topology-block, gce-topology-subblock, gce-topology-host, hostname",
        "kubernetes            built in  region, zone, hostname",
        "kubernetes-network    built in  region, zone, datacenter, spine, block, accelerator, hostname",
        "nvlink                built in  nvl-domain, gpu.clique, hostname",
        f"aws-nvlink            built in  zone, {_AWS}, nvl-domain, gpu.clique, hostname",
        "oci-nvlink            built in  zone, host.network_block_id, host.rack_id, nvl-domain, gpu.clique, hostname",
        f"gcp-nvlink            built in  zone, {_GCP}, nvl-domain, gpu.clique, hostname",
        (
            "coreweave-nvlink      built in  "
            "region, zone, fabric, superpod, leafgroup, rack, nvl-domain, gpu.clique, hostname"
        ),
    ]


def test_configured_topologies_come_first() -> None:
    """Those of the configuration and of files are there with the place where they are defined."""
    result = run("topology", "list", "--config", "cks.yaml", "-o", "json")

    assert (result.stderr, result.exit_code) == ("", 0)
    assert json.loads(result.stdout)[:2] == [
        {
            "name": "halls",
            "source": "topology.topologies[0] of the configuration",
            "inCluster": False,
            "levels": ["hall", "aisle"],
        },
        {"name": "fromfile", "source": "more/kai.yaml:1", "inCluster": False, "levels": ["block", "hostname"]},
    ]


def test_topologies_that_clash_are_an_error() -> None:
    """Two definitions of one name that differ cannot be used, and both are named."""
    clash = {**_KAI, "metadata": {"name": "halls"}}
    Path("more/clash.yaml").write_text(yaml.safe_dump(clash), encoding="utf-8")

    result = run("topology", "list", "--config", "cks.yaml")

    assert (result.stdout, result.exit_code) == ("", 2)
    assert last_line(result.stderr) == (
        'Error: topology "halls" is defined twice, with different levels: topology.topologies[0] of the configuration '
        "(example.org/hall, example.org/row); and more/clash.yaml:1 (example.org/block, kubernetes.io/hostname). "
        "Keep one."
    )


def test_a_topology_is_shown_with_its_keys() -> None:
    """The levels come with their keys and the older names of these, and what the topology requires in words."""
    result = run("topology", "show", "coreweave-infiniband")

    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.splitlines() == [
        "coreweave-infiniband: built in",
        "",
        "LEVEL      KEY                                FURTHER KEYS",
        "region     topology.kubernetes.io/region",
        "zone       topology.kubernetes.io/zone",
        "fabric     backend.coreweave.cloud/fabric     ib.coreweave.cloud/fabric",
        "superpod   backend.coreweave.cloud/superpod   ib.coreweave.cloud/superpod",
        "leafgroup  backend.coreweave.cloud/leafgroup  ib.coreweave.cloud/leafgroup",
        "rack       node.coreweave.cloud/rack",
        "hostname   kubernetes.io/hostname",
        "",
        _NAMED,
        "Node requirement: backend.coreweave.cloud/flavor=infiniband, or ib.coreweave.cloud/fabric is there",
        "Node pool: none in particular",
    ]


def test_aliases_pools_and_requirements_are_shown() -> None:
    """What a topology of one's own has beside keys is there too."""
    result = run("topology", "show", "halls", "--config", "cks.yaml")

    assert result.stdout.splitlines() == [
        "halls: topology.topologies[0] of the configuration",
        "",
        "LEVEL  KEY               ALIAS",
        "hall   example.org/hall",
        "row    example.org/row   aisle",
        "",
        "Node requirement: example.org/kind=gpu",
        "Node pool: example.org/pool=a",
    ]


def test_a_level_under_either_of_two_keys_is_explained() -> None:
    """A union of levels is put into words."""
    lines = run("topology", "show", "topograph-nvlink").stdout.splitlines()

    assert lines[-3] == (
        "nvlink is nvidia.com/gpu.clique, or where a Node lacks that, network.topology.nvidia.com/accelerator."
    )


def test_nodes_are_counted_by_level() -> None:
    """With Nodes it says how many have each level and in how many domains, and how many the topology is for."""
    write(Path("nodes.json"), *SMALL)

    result = run("topology", "show", "coreweave-infiniband", "--nodes", "nodes.json")

    assert result.stdout.splitlines()[2:] == [
        "LEVEL      KEY                                FURTHER KEYS                  NODES  DOMAINS",
        "region     topology.kubernetes.io/region                                        6        1",
        "zone       topology.kubernetes.io/zone                                          6        1",
        "fabric     backend.coreweave.cloud/fabric     ib.coreweave.cloud/fabric         5        1",
        "superpod   backend.coreweave.cloud/superpod   ib.coreweave.cloud/superpod       4        2",
        "leafgroup  backend.coreweave.cloud/leafgroup  ib.coreweave.cloud/leafgroup      0        0",
        "rack       node.coreweave.cloud/rack                                            5        4",
        "hostname   kubernetes.io/hostname                                               6        6",
        "",
        _NAMED,
        "Node requirement: backend.coreweave.cloud/flavor=infiniband, or ib.coreweave.cloud/fabric is there",
        "Node pool: none in particular",
        "Nodes: 6, of which it is for 5",
    ]


def test_a_topology_as_data() -> None:
    """The same is there for machines."""
    result = run("topology", "show", "halls", "--config", "cks.yaml", "-o", "yaml")

    assert yaml.safe_load(result.stdout) == {
        "name": "halls",
        "source": "topology.topologies[0] of the configuration",
        "inCluster": False,
        "levels": [
            {"name": "hall", "key": "example.org/hall", "keys": ["example.org/hall"]},
            {"name": "aisle", "key": "example.org/row", "keys": ["example.org/row"], "alias": "aisle"},
        ],
        "unions": [],
        "nodeRequirement": {"matchExpressions": [{"key": "example.org/kind", "operator": "In", "values": ["gpu"]}]},
        "pool": {"matchExpressions": [{"key": "example.org/pool", "operator": "In", "values": ["a"]}]},
    }


def test_an_unknown_topology_is_answered_with_the_nearest() -> None:
    """What may have been meant comes first, then all that are known."""
    result = run("topology", "show", "corewave")

    assert (result.stdout, result.exit_code) == ("", 2)
    assert result.stderr == (
        'Error: topology "corewave" is not known. Did you mean coreweave? Known topologies: coreweave, coreweave-roce, '
        "coreweave-nvlink, coreweave-infiniband, topograph, topograph-nvlink, topograph-v1, aws, oci, gcp, kubernetes, "
        "kubernetes-network, nvlink, aws-nvlink, oci-nvlink, gcp-nvlink.\n"
    )
