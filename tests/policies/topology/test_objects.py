"""Topology objects: how they are read, what is wrong with them, and who names one that changes or goes."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, TODAY, request, resource
from support.tables import rows

from policies.engine.facts import Node, References, StaticFacts
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.violation import Violation, describe
from policies.topology.objects import TopologyError, TopologyObjects, make, read, source_of
from policies.topology.topology import BUILT_IN, Catalog, Topology, level
from policies.vocabulary import HOSTNAME

_BLOCK, _RACK = "cloud.example.org/block", "cloud.example.org/rack"


def _kai(*levels: Any, name: Any = "halls") -> Any:
    spec = {"levels": list(levels)}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": "block-1"}, {"nodeLabel": _RACK}),
            Topology("halls", (level(_BLOCK, "block-1"), level(_RACK)), source="a file", objects=("KAI",)),
            id="kai",
        ),
        pytest.param(
            {**_kai({"nodeLabel": _BLOCK}), "apiVersion": "kueue.x-k8s.io/v1beta1"},
            Topology("halls", (level(_BLOCK),), source="a file", objects=("Kueue",)),
            id="kueue",
        ),
        pytest.param(
            {"name": "halls", "clusterId": "71f69d83", "levels": [_BLOCK, "ib.coreweave.cloud/fabric"]},
            Topology("halls", (level(_BLOCK), level("ib.coreweave.cloud/fabric")), source="a file"),
            id="runai",
        ),
        pytest.param(
            _kai({"nodeLabel": _BLOCK, "alias": None}, {"nodeLabel": "kubernetes.io/hostname", "alias": ""}),
            Topology("halls", (level(_BLOCK), level("kubernetes.io/hostname")), source="a file", objects=("KAI",)),
            id="no-aliases",
        ),
    ],
)
def test_forms(document: Any, expected: Topology) -> None:
    """Each form comes to the same value, with its levels in their order."""
    assert read(document, "a file") == expected


def test_an_object_of_the_cluster() -> None:
    """Where it comes from is kept, since schedulers know the cluster's topologies only."""
    assert read(_kai(_level := {"nodeLabel": _BLOCK}), "KAI", in_cluster=True) == Topology(
        "halls", (level(_BLOCK),), source="KAI", in_cluster=True, objects=("KAI",)
    )
    assert source_of(_kai(_level)) == "KAI Topology halls"
    assert source_of({**_kai(_level), "apiVersion": "kueue.x-k8s.io/v1beta1"}) == "Kueue Topology halls"


def test_an_entry_of_the_configuration() -> None:
    """It may also say what Nodes must have, and for which pool it is."""
    requirement = LabelSelector((SelectorRequirement("a", "Exists"),))
    pool = LabelSelector((SelectorRequirement("b", "In", ("c",)),))

    made = make("halls", (_BLOCK,), "the configuration", requirement=requirement, pool=pool)

    assert made == Topology("halls", (level(_BLOCK),), (), requirement, pool, "the configuration")


_KEY = "a level is the key of a node label, such as example.org/rack; found"


@rows(__file__, "wrong")
def test_what_is_wrong(document: Any, message: str) -> None:
    """Every mistake is told with its place and what was found. A list stands for the levels of an entry."""
    with pytest.raises(TopologyError) as raised:
        read({"name": "halls", "levels": document} if isinstance(document, list) and document else document, "a file")

    assert str(raised.value) == message


def test_problems_have_their_places() -> None:
    """Whoever reads a file can find the line of each mistake."""
    with pytest.raises(TopologyError) as raised:
        make("halls", [1], "the configuration", at=("topology", "topologies", 2))

    assert raised.value.problems == ((("topology", "topologies", 2, "levels", 0), f"{_KEY} the number 1"),)


_RULE = TopologyObjects(Catalog(BUILT_IN), "deny")


def _topology(api_version: str = "kai.scheduler/v1alpha1", kind: str = "Topology") -> Any:
    return resource(api_version, kind, name="halls")


_MADE = {"metadata": {"name": "halls", "ownerReferences": [{"kind": "ClusterTopologyBinding", "controller": True}]}}


def _levels(*keys: str) -> Any:
    return {**_topology(), "spec": {"levels": [{"nodeLabel": key} for key in keys]}}


def _flavor(topology: str) -> Any:
    flavor = resource("kueue.x-k8s.io/v1beta2", "ResourceFlavor", name="gpus")
    return {**flavor, "spec": {"topologyName": topology} if topology else {}}


def _facts(*workloads: str, incomplete: str = "") -> StaticFacts:
    return StaticFacts(TODAY, naming={"halls": References(workloads, incomplete)})


def _violation(problem: str) -> Violation:
    return Violation(
        "topology-objects",
        "",
        'topology "halls"',
        problem,
        "Workloads still name this topology.",
        "Change or delete them first: Pods that wait would never be scheduled. Running ones go on.",
    )


@pytest.mark.parametrize("api_version", ["kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta1"])
def test_workloads_that_name_it(api_version: str) -> None:
    """The first five are listed, and it is said if there may be more."""
    asked, doubt = request(None, old=_topology(api_version)), "not all could be looked at: no time left"
    found = {
        "is named by Job a/train": _facts("Job a/train"),
        "is named by Job a/1, Job a/2, Job a/3, Job a/4, Job a/5 and 2 more": _facts(
            *(f"Job a/{n}" for n in range(1, 8))
        ),
        f"is named by Job a/train; {doubt}": _facts("Job a/train", incomplete="no time left"),
        doubt: _facts(incomplete="no time left"),
    }

    for problem, facts in found.items():
        assert _RULE.validate(asked, facts) == (_violation(problem),)
    assert list(_RULE.validate(asked, FACTS)) == []
    assert describe([_violation("is named by Job a/train")]) == (
        "Workloads still name this topology.\n"
        '  topology "halls" is named by Job a/train\n'
        "Change or delete them first: Pods that wait would never be scheduled. Running ones go on."
    )


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(None, old=_topology("example.org/v1")), id="another-group"),
        pytest.param(request(None, old=_topology(kind="Queue")), id="another-kind"),
        pytest.param(request(_levels("a.example/x"), old=_levels("a.example/x")), id="the-same-levels"),
        pytest.param(request(_flavor("halls"), old=_flavor("halls")), id="a-flavor-that-stays"),
        pytest.param(request(_flavor("halls"), old=_flavor("")), id="a-flavor-that-is-attached"),
        pytest.param(request({**_levels(HOSTNAME, "a.example/x"), **_MADE}), id="what-a-controller-made"),
    ],
)
def test_of_what_nothing_is_said(asked: Any) -> None:
    """Nothing is looked up for it."""
    assert list(_RULE.validate(asked, _facts("Job a/train"))) == []


_DETACHED = "is detached from ResourceFlavor gpus, and is named by Job a/train"
_REORDERED = request(_levels("a.example/x", "a.example/y"), old=_levels("a.example/y", "a.example/x"))
_SHORTENED = request(_levels("a.example/x"), old=_levels("a.example/x", "a.example/y"))


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (_SHORTENED, "loses a.example/y, and is named by Job a/train"),
        (_REORDERED, "has its levels in another order, and is named by Job a/train"),
        (request(_flavor(""), old=_flavor("halls")), _DETACHED),
        (request(None, old=_flavor("halls")), _DETACHED),
    ],
)
def test_workloads_that_name_what_changes(asked: Any, problem: str) -> None:
    """Those are named whose Pods would wait for what is not there any more."""
    (found,) = _RULE.validate(asked, _facts("Job a/train"))

    assert (found.value, found.problem, found.verdict) == ('topology "halls"', problem, "")


@pytest.mark.parametrize(
    ("leaving", "verdicts"), [("deny", [""]), ("warn", ["warn"]), ("audit", ["audit"]), ("off", [])]
)
def test_what_a_deletion_leads_to(leaving: Any, verdicts: list[str]) -> None:
    """It is a setting, whatever else the rule refuses; a warning of a change is short and names one workload."""
    rule = TopologyObjects(Catalog(()), leaving)
    several = [found.problem for found in rule.validate(_SHORTENED, _facts("Job a/1", "Job a/2", "Job a/3"))]

    assert [found.verdict for found in rule.validate(request(None, old=_topology()), _facts("Job a/train"))] == verdicts
    named = "Job a/1 and 2 more" if leaving == "warn" else "Job a/1, Job a/2, Job a/3"
    assert several == [f"loses a.example/y, and is named by {named}" for _ in verdicts]


@rows(__file__, "written")
def test_a_written_topology(levels: list[str], told: str, *, is_broken: bool) -> None:
    """What cannot work is refused; of what may not be meant so a warning tells, with what to do."""
    halls = {"a.example/hall": "east", "ib.coreweave.cloud/fabric": "f1", "node.coreweave.cloud/rack": "1"}
    nodes = (
        Node("n1", {**halls, "a.example/room": "one", "backend.coreweave.cloud/superpod": "1"}),
        Node("n2", {**halls, "a.example/room": "two", "backend.coreweave.cloud/superpod": "2"}),
    )
    found = list(_RULE.validate(request(_levels(*levels)), StaticFacts(TODAY, cluster_nodes=nodes)))

    assert [violation.verdict for violation in found] == ([] if not told else [""] if is_broken else ["warn"])
    assert [each for each in found if not (each.line if is_broken else each.warning).startswith(told)] == []


def test_a_binding_of_grove_by_its_fields() -> None:
    """Its levels have a domain and a key, and messages name these."""
    binding = resource("grove.io/v1alpha1", "ClusterTopologyBinding", name="halls")
    levels = [{"domain": "rack", "key": "a.example/x"}, {"domain": "rack", "key": "a.example/y"}]

    found = _RULE.validate(request({**binding, "spec": {"levels": levels}}), FACTS)

    assert [violation.path for violation in found] == ["spec.levels[0].domain", "spec.levels[1].domain"]
