"""One request costs work in proportion to its size, whatever part of the object is large, for each built-in rule."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.builders import Json, request
from support.service.reviews import TODAY, UID
from support.service.servers import default_rules

from policies.engine.engine import mutate, validate
from policies.engine.facts import Node, StaticFacts, Taint
from webhook.http.review import encode

_NODES = tuple(
    Node(f"n{number}", {"sunk.coreweave.com/x": "1", "disk": str(number)}, (Taint("is_gpu", "NoSchedule", "true"),))
    for number in range(50)
)
_FACTS = StaticFacts(TODAY, cluster_nodes=_NODES)
_RULES = default_rules()
_LABEL = {"qos.coreweave.cloud/interruptable": "true"}
_JOB = {"template": {"metadata": {"labels": _LABEL}, "spec": {"template": {"spec": {}}}}}
_CLAIM = {"volumeClaimTemplate": {"metadata": {"labels": {"a.coreweave.cloud/b": "c"}}}}
_PLACED = {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-required-placement": "superpod=3"}


def _object(version: str, kind: str, spec: Json, **metadata: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": spec}


def _reserved(count: int) -> Json:
    return {f"k{number}.coreweave.cloud/a": "v" for number in range(count)}


def _terms(count: int) -> Json:
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": [f"x{number}"]}]} for number in range(count)
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _ray(groups: list[Json], **metadata: Any) -> Json:
    spec = {"workerGroupSpecs": [{"template": group} for group in groups]}
    return _object("ray.io/v1", "RayCluster", spec, **metadata)


def _containers(count: int) -> Json:
    resources = {"limits": {"cpu": "1", "example.com/b": "1"}}
    claims = [{"name": str(number), "resourceClaimTemplateName": "x"} for number in range(count)]
    return {
        "containers": [{"name": str(number), "resources": resources} for number in range(count)],
        "resourceClaims": claims,
    }


def _daemon_set(spec: Json) -> Json:
    return _object("apps/v1", "DaemonSet", {"template": {"spec": spec}})


_OBJECTS: dict[str, Callable[[int], Json]] = {
    "labels": lambda count: _object("v1", "ConfigMap", {}, labels=_reserved(count)),
    "labels-of-nodes": lambda count: _object("v1", "Node", {}, labels=_reserved(count)),
    "copies": lambda count: _object(
        "jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [_JOB] * count}, labels=_LABEL
    ),
    "volumes": lambda count: _object(
        "v1", "Pod", {"volumes": [{"name": str(number), "ephemeral": _CLAIM} for number in range(count)]}
    ),
    "containers": lambda count: _object("v1", "Pod", _containers(count)),
    "tolerations": lambda count: _object("v1", "Pod", {"tolerations": [{"key": f"k{n}"} for n in range(count)]}),
    "sunk-tolerations": lambda count: _daemon_set({"tolerations": [{"key": f"k{number}"} for number in range(count)]}),
    "sunk-affinity": lambda count: _daemon_set({"affinity": _terms(10 * count)}),
    "groups": lambda count: _ray([{"spec": {}}] * count, annotations=_PLACED),
    "groups-with-annotations": lambda count: _ray(
        [{"metadata": {"annotations": {**_PLACED, "n": str(number)}}, "spec": {}} for number in range(count)]
    ),
    "groups-with-mistakes": lambda count: _ray(
        [
            {"metadata": {"annotations": {**_PLACED, "kai.scheduler/topology": f"x{n}"}}, "spec": {}}
            for n in range(count)
        ]
    ),
    "node-pools": lambda count: _ray(
        [{"spec": {"nodeSelector": {"runai/node-pool": str(number)}}} for number in range(count)], annotations=_PLACED
    ),
    "a-long-name": lambda count: _object(
        "v1", "Pod", {}, annotations={**_PLACED, "kai.scheduler/topology": "coreweave" * 100 * count}
    ),
    "owners": lambda count: _object("v1", "ConfigMap", {}, ownerReferences=[{"uid": str(n)} for n in range(count)]),
}


def _work(obj: Json, old: Json | None) -> tuple[int, int]:
    """How many functions written in Python are called to answer in both phases; and the bytes of the refusals."""
    asked = request(obj, old=old)
    calls = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        mutate(asked, _RULES, _FACTS)
        answer = validate(asked, _RULES, _FACTS)
        size = len(encode(UID, answer))
    finally:
        sys.setprofile(before)
    return calls, size


@pytest.mark.parametrize("name", _OBJECTS)
@pytest.mark.parametrize("phase", ["create", "update", "empty"])
def test_work_is_in_proportion_to_the_object(name: str, phase: str) -> None:
    """An object of four times the size costs at most five times the work, and gets an answer of a few KiB."""

    def work(count: int) -> tuple[int, int]:
        obj = _OBJECTS[name](count)
        empty = {**obj, "metadata": {"name": "x"}, "spec": {}}
        if phase == "empty":
            return _work(empty, obj)
        return _work(obj, empty if phase == "update" else None)

    work(3)  # fills caches
    (small, _), (large, size) = work(50), work(200)

    assert large <= 5 * small + 500
    assert size < 12_000


def test_affinity_that_is_too_long_to_be_compared_is_taken_to_allow() -> None:
    """A DaemonSet with more affinity than can be compared with every SUNK Node is warned about."""
    answer = validate(request(_daemon_set({"affinity": _terms(10_000)})), _RULES, _FACTS)

    assert [decision.verdict for decision in answer.decisions if decision.rule == "sunk"] == ["warn"]
    few = validate(request(_daemon_set({"affinity": _terms(10)})), _RULES, _FACTS)
    assert [decision.verdict for decision in few.decisions if decision.rule == "sunk"] == ["admit"]
