"""Topology objects: what is wrong with one, and who still names one that goes or changes."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, TODAY, request, resource

from policies.engine.facts import Node, References, StaticFacts
from policies.engine.violation import Violation, describe
from policies.topology.objects import BROKEN, TopologyObjects
from policies.topology.topology import BUILT_IN, Catalog
from policies.vocabulary import HOSTNAME

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
        "Workloads still name this topology; those that are not running yet would not be scheduled.",
        "Change or delete these workloads first. Running Pods go on.",
    )


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        pytest.param(_facts("Job a/train"), "is named by Job a/train", id="one"),
        pytest.param(
            _facts(*(f"Job a/{n}" for n in range(1, 8))),
            "is named by Job a/1, Job a/2, Job a/3, Job a/4, Job a/5 and 2 more",
            id="many",
        ),
        pytest.param(
            _facts("Job a/train", incomplete="no time left"),
            "is named by Job a/train; not all could be looked at: no time left",
            id="incomplete",
        ),
        pytest.param(_facts(incomplete="no time left"), "not all could be looked at: no time left", id="none-so-far"),
    ],
)
@pytest.mark.parametrize("api_version", ["kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta1"])
def test_workloads_that_name_it(api_version: str, facts: StaticFacts, problem: str) -> None:
    """The first five are listed, and it is said if there may be more."""
    assert _RULE.validate(request(None, old=_topology(api_version)), facts) == (_violation(problem),)


def test_the_words() -> None:
    """What people read: what would happen, who it is, what to do."""
    (found,) = _RULE.validate(request(None, old=_topology()), _facts("Job a/train"))

    assert describe([found]) == (
        "Workloads still name this topology; those that are not running yet would not be scheduled.\n"
        '  topology "halls" is named by Job a/train\n'
        "Change or delete these workloads first. Running Pods go on."
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


def test_a_topology_that_nobody_names() -> None:
    """It may go."""
    assert list(_RULE.validate(request(None, old=_topology()), FACTS)) == []


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        pytest.param(
            request(_levels("a.example/x"), old=_levels("a.example/x", "a.example/y")),
            "loses a.example/y, and is named by Job a/train",
            id="a-level-that-goes",
        ),
        pytest.param(
            request(_levels("a.example/x", "a.example/y"), old=_levels("a.example/y", "a.example/x")),
            "has its levels in another order, and is named by Job a/train",
            id="another-order",
        ),
        pytest.param(
            request(_flavor(""), old=_flavor("halls")),
            "is detached from ResourceFlavor gpus, and is named by Job a/train",
            id="a-flavor-that-is-detached",
        ),
        pytest.param(
            request(None, old=_flavor("halls")),
            "is detached from ResourceFlavor gpus, and is named by Job a/train",
            id="a-flavor-that-goes",
        ),
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
    """It is a setting, whatever else the rule refuses."""
    rule = TopologyObjects(Catalog(()), leaving)

    assert [found.verdict for found in rule.validate(request(None, old=_topology()), _facts("Job a/train"))] == verdicts


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        pytest.param([], [(BROKEN, "spec.levels: a topology needs levels, farthest first, found none")], id="none"),
        pytest.param(
            [HOSTNAME, "a.example/x"],
            [(BROKEN, f"spec.levels[0]: {HOSTNAME} is a single Node, so it must be the last level")],
            id="hostname-first",
        ),
        pytest.param(
            ["a.example/x", "a.example/x"],
            [(BROKEN, 'spec.levels[1]: "a.example/x" is the same level as "a.example/x"')],
            id="twice",
        ),
        pytest.param(["a b"], [(BROKEN, "spec.levels[0].nodeLabel: a level is the key of a node label")], id="no-key"),
        pytest.param(
            ["backend.coreweave.cloud/speed.current"],
            [("", 'spec.levels[0].nodeLabel: "backend.coreweave.cloud/speed.current" tells')],
            id="a-speed",
        ),
        pytest.param(
            ["node.coreweave.cloud/rack", "backend.coreweave.cloud/superpod"],
            [("", 'spec.levels[0]: "node.coreweave.cloud/rack" is nearer than "backend.coreweave.cloud/superpod" in')],
            id="another-order-than-is-known",
        ),
        pytest.param(
            ["a.example/room", "a.example/hall"],
            [("", 'spec.levels[0]: each "a.example/room" is within one "a.example/hall" on the Nodes.')],
            id="another-order-than-the-nodes",
        ),
        pytest.param(["a.example/hall", "a.example/room"], [], id="as-the-nodes-have-it"),
        pytest.param(
            ["a.example/row"], [("", "spec.levels[0]: no Node carries the label a.example/row.")], id="unknown"
        ),
        pytest.param(
            ["backend.coreweave.cloud/fabric"],
            [("", "spec.levels[0]: no Node carries the label backend.coreweave.cloud/fabric. They carry its twin")],
            id="the-newer-key",
        ),
    ],
)
def test_a_written_topology(levels: list[str], told: list[tuple[str, str]]) -> None:
    """What cannot work is refused; of what may not be meant so a warning tells, with what to do."""
    halls = {"a.example/hall": "east", "ib.coreweave.cloud/fabric": "f1", "node.coreweave.cloud/rack": "1"}
    nodes = (
        Node("n1", {**halls, "a.example/room": "one", "backend.coreweave.cloud/superpod": "1"}),
        Node("n2", {**halls, "a.example/room": "two", "backend.coreweave.cloud/superpod": "2"}),
    )
    found = list(_RULE.validate(request(_levels(*levels)), StaticFacts(TODAY, cluster_nodes=nodes)))

    assert len(found) == len(told)
    for violation, (summary, text) in zip(found, told, strict=True):
        assert violation.verdict == ("" if summary == BROKEN else "warn")
        assert (violation.line if summary == BROKEN else violation.summary).startswith(text)


def test_a_binding_of_grove_by_its_fields() -> None:
    """Its levels have a domain and a key, and messages name these."""
    binding = resource("grove.io/v1alpha1", "ClusterTopologyBinding", name="halls")
    levels = [{"domain": "rack", "key": "a.example/x"}, {"domain": "rack", "key": "a.example/y"}]

    found = _RULE.validate(request({**binding, "spec": {"levels": levels}}), FACTS)

    assert [violation.summary.partition(":")[0] for violation in found] == [
        "spec.levels[0].domain", "spec.levels[1].domain",
    ]  # fmt: skip
