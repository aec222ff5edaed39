"""Nodes that lack labels."""

from __future__ import annotations

from typing import Any

import pytest

from policies.engine.facts import Node
from policies.topology.nodes.tree import Machine
from policies.topology.topology import Catalog
from webhook.configuration import rules
from webhook.doctor.cluster import check_scheduling, check_topology
from webhook.doctor.observation import TopologyObjects

from .findings import settings, told

_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
_RACK = "example.org/rack"
_PLACE = {_REGION: "us", _ZONE: "us-1"}
_GATES = "turn on what is missing, or set it to off: the placer chooses domains"
_LABELS = "check what should label them (the cloud's controller, Topograph), or label them yourself"


def _machine(name: str, labels: dict[str, str], total: int = 8) -> Machine:
    return Machine(Node(name, labels), total)


def _check(*machines: Machine, own: Any = None, **topology: Any) -> list[tuple[str, str, str, str]]:
    chosen = settings(topology=topology)
    catalog: Catalog = rules.topologies(chosen)
    return told(check_topology(chosen, catalog, own or TopologyObjects(), machines))


def test_nodes_with_all_labels() -> None:
    """The topology that fits the Nodes is looked at; those without accelerators may lack labels."""
    assert _check(_machine("a", _PLACE), _machine("b", _PLACE), _machine("cpu", {_REGION: "us"}, 0)) == [
        (
            "ok",
            "topology kubernetes",
            "2 Nodes with accelerators, none without the labels of region, zone; 1 of 1 other without",
            "",
        )
    ]


def test_nodes_with_accelerators_that_lack_labels() -> None:
    """They are named, each with the levels that it lacks."""
    bare = [_machine(f"gpu-{number}", {_REGION: "us"}) for number in range(5)]
    assert _check(_machine("a", _PLACE), *bare) == [
        (
            "warning",
            "topology kubernetes",
            "5 of 6 Nodes with accelerators lack labels: gpu-0 (zone), gpu-1 (zone), gpu-2 (zone) and 2 more",
            _LABELS,
        )
    ]


def test_a_topology_of_the_settings_that_no_node_knows() -> None:
    """Who defines a topology means to use it: that no Node has its labels is told, beside the one that fits."""
    own = {"name": "racks", "levels": [_RACK, "kubernetes.io/hostname"]}

    found = _check(_machine("a", _PLACE), topologies=[own])

    assert found[0] == (
        "warning",
        "topology racks",
        f"none of 1 Node has a label of its levels: {_RACK}",
        _LABELS,
    )
    assert [where for _, where, *_ in found] == ["topology racks", "topology kubernetes"]


def test_nodes_without_any_label() -> None:
    """Without accelerators nobody misses them."""
    found = f"none of 1 Node has a label of its levels: {_REGION}, {_ZONE}"

    assert _check(_machine("a", {}, 0)) == [("ok", "topology kubernetes", found, "")]
    assert _check(_machine("a", {}, 8)) == [("warning", "topology kubernetes", found, _LABELS)]
    assert _check() == [("ok", "Nodes", "there are none", "")]


def test_topology_objects_that_cannot_be_used() -> None:
    """What is wrong with objects of the cluster is told in the words of the service."""
    own = TopologyObjects(problems=("KAI Topology broken cannot be used: no levels",))

    assert _check(own=own)[0] == (
        "warning",
        "Topology objects",
        "KAI Topology broken cannot be used: no levels",
        "correct the object, or grant the right",
    )


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('{"form":"Job"}', ("ok", "the API server keeps topology constraints of Jobs", "")),
        ('{"reason":"gates are off"}', ("warning", "no placement is left to Kubernetes: gates are off", _GATES)),
        ("", ("warning", "no placement is left to Kubernetes: manage has not found out yet", _GATES)),
    ],
)
def test_what_kubernetes_schedules_itself(annotation: str, expected: tuple[str, str, str]) -> None:
    """What manage found out by dry runs is shown, with the reason where nothing comes of the setting."""
    chosen = settings(topology={"workloadScheduling": "on"}, manage={"apart": True})
    own = {"metadata": {"annotations": {"cks-admission.dev/workload-scheduling": annotation}}}

    ((level, where, found, remedy),) = told(check_scheduling(chosen, own))

    assert ((level, found, remedy), where) == (expected, "topology.workloadScheduling")
    assert told(check_scheduling(settings(manage={"apart": True}), own)) == []
