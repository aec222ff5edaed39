"""Workload scheduling: which Jobs get Kubernetes' own constraint, on which label key, and why others do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.builders import FACTS, WORKLOADS, Json, merged, pod_spec, request
from support.tables import rows

from policies.engine.facts import Node
from policies.topology.template import Options, Template, read
from policies.topology.topology import BUILT_IN, Catalog
from policies.topology.way import (
    Form,
    JobKey,
    Support,
    constraints,
    job_of,
    offer,
    scheduling,
)

_TOPOLOGY = "kai.scheduler/topology"
_REQUIRED = f"{_TOPOLOGY}-required-placement"
_BACKEND, _IB, _RACK = "backend.coreweave.cloud", "ib.coreweave.cloud", "node.coreweave.cloud/rack"
_SUPERPOD = f"{_BACKEND}/superpod"


def _node(name: str, **values: str) -> Node:
    keys = {"rack": _RACK, "ib": f"{_IB}/superpod", "flavor": f"{_BACKEND}/flavor"}
    return Node(name, {keys.get(level, f"{_BACKEND}/{level}"): value for level, value in values.items()})


# Racks are numbered through, superpods anew in each fabric.
_NODES = [
    _node("a", fabric="f1", superpod="1", rack="1"),
    _node("b", fabric="f1", superpod="1", rack="2"),
    _node("c", fabric="f2", superpod="1", rack="3"),
    Node("cpu", {"kubernetes.io/hostname": "cpu"}),
]


def _job(required: str = "rack", **spec: Any) -> Json:
    indexed = {"parallelism": 8, "completions": 8, "completionMode": "Indexed"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {_TOPOLOGY: "coreweave", _REQUIRED: required}},
        "spec": {**indexed, "template": {"metadata": {}, "spec": pod_spec()}, **spec},
    }


def _template(obj: Json) -> Template:
    case = read(request(obj), Catalog(BUILT_IN), Options(WORKLOADS), FACTS)
    assert case is not None
    return case.templates[0]


def _offer(obj: Json, nodes: Sequence[Node] = _NODES, form: Form = "Job") -> tuple[str, str]:
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return offer(_template(obj), (group, obj["kind"]), obj, Support(form), nodes)


def test_a_level_with_one_key_and_unique_values_is_a_template() -> None:
    """A required rack, where racks are numbered through, becomes the constraint on the key of racks in both forms."""
    assert _offer(_job()) == _offer(_job(), form="PodGroup") == (_RACK, "")
    assert scheduling(_RACK) == {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": {"topology": [{"key": _RACK}]},
    }


def test_a_value_in_two_places_is_no_domain() -> None:
    """Superpod 1 of two fabrics would be one domain: no constraint, unless the placement or the template names one."""
    obstacle = ("", "superpod 1 is in several places; name the one around it")
    pinned = merged(_job("superpod"), {"spec": {"template": {"spec": {"nodeSelector": {f"{_BACKEND}/fabric": "f1"}}}}})

    assert _offer(_job("superpod")) == obstacle
    assert _offer(_job("fabric=f1,superpod")) == _offer(pinned) == (_SUPERPOD, "")


def test_nodes_with_an_older_key_only_are_another_domain() -> None:
    """Kubernetes knows one key: where some Nodes have the older one alone, there is no constraint."""
    old = _node("d", fabric="f3", ib="9")
    one = [_node("e", superpod="1"), Node("f", {_SUPERPOD: "2", f"{_IB}/superpod": "2"})]

    obstacle = f"not all Nodes have the same label for superpod: {_SUPERPOD}, {_IB}/superpod"
    assert _offer(_job("superpod"), [_NODES[0], old]) == ("", obstacle)
    assert _offer(_job("superpod"), [old]) == (f"{_IB}/superpod", "")
    assert _offer(_job("superpod"), one) == (_SUPERPOD, "")


def test_the_requirement_of_a_topology_counts() -> None:
    """Nodes that a topology rules out cannot make the values ambiguous."""
    nodes = [
        _node("a", fabric="f1", superpod="1", flavor="infiniband"),
        _node("b", fabric="f2", superpod="1", flavor="roce"),
    ]
    job = merged(_job("superpod"), {"metadata": {"annotations": {_TOPOLOGY: "coreweave-infiniband"}}})

    assert _offer(job, nodes) == (_SUPERPOD, "")


@rows(__file__, "obstacles")
def test_jobs_that_kubernetes_places_otherwise(change: Json, form: Form, obstacle: str) -> None:
    """A Job of which Kubernetes makes no gang, or not with this constraint, gets none, with the reason."""
    made = _offer(merged(_job(), change), form=form)

    assert made[1].startswith(obstacle)
    assert bool(made[0]) is not bool(obstacle)


def test_the_job_of_a_pod_group() -> None:
    """A PodGroup that a Job controls, and that has no constraint, is to get that of the Job."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    group: Json = {"metadata": {"ownerReferences": [reference]}, "spec": {}}

    assert job_of(group, "team") == JobKey("team", "train", "u")
    assert job_of(merged(group, {"spec": {"schedulingConstraints": constraints(_RACK)}}), "team") is None
    assert (
        job_of({"metadata": {"ownerReferences": [{**reference, "apiVersion": "batch.volcano.sh/v1"}]}}, "team") is None
    )
    assert job_of({"metadata": {}}, "team") is None


_PLACES = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.sampled_from("xy")), min_size=1)


@given(_PLACES, st.sampled_from(["fabric", "superpod"]), st.randoms(use_true_random=False))
def test_a_constraint_means_the_domain_of_the_placement(places: Any, level: str, random: Any) -> None:
    """Where there is a key, Nodes share its value if and only if they share the domain; the order does not matter."""
    nodes = [
        _node(str(index), fabric=fabric, superpod=superpod, leafgroup=leaf)
        for index, (fabric, superpod, leaf) in enumerate(places)
    ]
    depth = 1 if level == "fabric" else 2
    domains, values = {place[:depth] for place in places}, {place[depth - 1] for place in places}
    made = _offer(_job(level), nodes)
    random.shuffle(nodes)

    assert bool(made[0]) is (len(domains) == len(values))
    assert _offer(_job(level), nodes)[0] == made[0]
    assert constraints(made[0]) == {"topology": [{"key": made[0]}]}
