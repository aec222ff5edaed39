"""Levels that objects name in the ways of other schedulers: what is said of them, and when."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, TODAY, Json, at, request, resource

from policies.engine.facts import Node, StaticFacts
from policies.objects.workload import BUILT_IN as WORKLOADS
from policies.objects.workload import table
from policies.topology.objects import read
from policies.topology.rule import TopologyPlacement
from policies.topology.schemes import Judge, is_mentioned, mentions
from policies.topology.template import Options
from policies.topology.topology import BUILT_IN, Catalog

_RACK, _SUPERPOD = "node.coreweave.cloud/rack", "backend.coreweave.cloud/superpod"
_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
_NODES = tuple(Node(f"n{n}", {_RACK: str(n), _SUPERPOD: "1", "kubernetes.io/hostname": f"n{n}"}) for n in (1, 2))
_KUEUE = read(
    {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "racks"},
     "spec": {"levels": [{"nodeLabel": _RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}},
    "Kueue Topology racks", in_cluster=True,
)  # fmt: skip
_RULE = TopologyPlacement(Catalog(BUILT_IN), Options({row.group_kind: row for row in WORKLOADS if row.makes_pods}))
_QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}


def _job(level: str = "rak", **metadata: Any) -> Json:
    template = at("spec.template.metadata.annotations", {_REQUIRED: level})
    return resource("batch/v1", "Job", template, name="train", **{**_QUEUED, **metadata})


def _said(asked: Any, facts: StaticFacts) -> list[str]:
    violations = _RULE.validate(asked, facts)
    assert all(violation.verdict == "warn" for violation in violations)
    return [violation.summary for violation in violations]


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [
        pytest.param(request(_job()), True, id="creation"),
        pytest.param(request(_job(), old=_job("rack")), True, id="change"),
        pytest.param(request(_job(), old=_job()), False, id="as-before"),
        pytest.param(request(_job(), sub_resource="status"), False, id="subresource"),
        pytest.param(request(_job(deletionTimestamp="2026-01-01T00:00:00Z")), False, id="being-deleted"),
        pytest.param(request(_job(ownerReferences=[{"kind": "X", "controller": True}])), False, id="of-a-controller"),
    ],
)
def test_when_something_is_said(asked: Any, *, is_told: bool) -> None:
    """People are told of what they change, and controllers of nothing."""
    facts = StaticFacts(TODAY, cluster_nodes=_NODES)

    assert bool(_said(asked, facts)) is is_told


def test_levels_of_kueue_are_those_of_its_topologies() -> None:
    """A label that Nodes carry is no level for Kueue, unless a Topology object of its own has it."""
    facts = StaticFacts(TODAY, cluster_nodes=_NODES, cluster_topologies=(_KUEUE,))
    where = f"spec.template.metadata.annotations[{_REQUIRED}]"

    assert _said(request(_job(_RACK)), facts) == []
    assert _said(request(_job(_SUPERPOD)), facts) == [
        f'{where}: "{_SUPERPOD}" is no level of a Topology of Kueue. Levels are {_RACK}, kubernetes.io/hostname.'
    ]


def test_a_topology_in_the_cluster_that_grove_knows() -> None:
    """A PodCliqueSet names a domain of a ClusterTopologyBinding; its key alone is none."""
    binding: Json = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": "h100"}}
    binding["spec"] = {"levels": [{"domain": "rack", "key": _RACK}]}
    facts = StaticFacts(TODAY, cluster_topologies=(read(binding, "Grove", in_cluster=True),))
    said = {}
    for name, domain in (("h100", "rack"), ("h100", _RACK), ("coreweave", "zone")):
        constraint = at("spec.template.topologyConstraint", {"topologyName": name, "packDomain": domain})
        said[domain] = _said(request(resource("grove.io/v1alpha1", "PodCliqueSet", constraint)), facts)

    where = "spec.template.topologyConstraint.packDomain"
    assert said == {
        "rack": [],
        _RACK: [f'{where}: "{_RACK}" is no level of topology "h100". Did you mean rack?'],
        "zone": [f'{where}: "zone" is a level of "coreweave", which is no topology. Known are h100.'],
    }


def test_few_of_many_are_told() -> None:
    """An answer has room for so many; an object of a thousand wrong levels costs no more."""
    cliques = [{"name": f"c{n}", "topologyConstraint": {"packDomain": "x"}, "spec": {}} for n in range(1000)]

    obj = resource("grove.io/v1alpha1", "PodCliqueSet", at("spec.template.cliques", cliques))

    assert len(_said(request(obj), FACTS)) == 24


@pytest.mark.parametrize(
    ("annotations", "meaning"),
    [
        ({_REQUIRED: _RACK}, "Kueue keeps all Pods in one rack, or lets them wait"),
        ({"kueue.x-k8s.io/podset-preferred-topology": _RACK}, "Kueue packs the Pods into one rack if there is room"),
        ({"kueue.x-k8s.io/podset-unconstrained-topology": "true"}, "Kueue admits its Pods once there is room"),
    ],
)
def test_what_a_level_comes_to(annotations: Json, meaning: str) -> None:
    """A sentence says who does what, and in how many domains the Nodes are."""
    row = table(WORKLOADS)["batch", "Job"]
    obj = resource("batch/v1", "Job", at("spec.template.metadata.annotations", annotations), at("metadata", _QUEUED))
    judge = Judge(Catalog(BUILT_IN), _NODES)

    (mention,) = mentions(obj, row.group_kind, row)

    told = judge.meaning(mention)
    assert (judge.problem(mention), told.startswith(meaning), is_mentioned(row, obj)) == ("", True, True)
    assert told.endswith("Nodes are in 2 of them: 1, 2") is (mention.sort != "unconstrained")
