"""The other ways: Pod affinity of a gang to itself, the replicas of a LeaderWorkerSet, labels alone."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from policies.topology.way.permission import Permission
from support.builders import FACTS, TODAY, WORKLOADS, Json, at, merged, pod_spec, request, resource
from support.choices import Chooser

from policies.engine.facts import Node, StaticFacts
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.objects import patch
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Options
from policies.topology.rule import TopologyPlacement

_TOPOLOGY = "kai.scheduler/topology"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_RECORD, _RACK = "cks-admission.dev/topology", "node.coreweave.cloud/rack"
_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS))
_GPU = {"nvidia.com/gpu": 8}
_OF_JOB: Json = {"labelSelector": {}, "matchLabelKeys": ["batch.kubernetes.io/controller-uid"]}
_LWS = "leaderworkerset.sigs.k8s.io"


def _asked(required: str = "", preferred: str = "") -> dict[str, str]:
    levels = {_REQUIRED: required, _PREFERRED: preferred}
    return {_TOPOLOGY: "coreweave", **{key: level for key, level in levels.items() if level}}


def _job(annotations: dict[str, str]) -> Json:
    spec = {"parallelism": 8, "template": {"spec": pod_spec(_GPU)}}
    return resource("batch/v1", "Job", {"spec": spec}, annotations=annotations)


def _set(annotations: dict[str, str]) -> Json:
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "a"}}, "template": {"spec": pod_spec(_GPU)}}
    return resource("apps/v1", "StatefulSet", {"spec": spec}, annotations=annotations)


def _changed(obj: Json, facts: StaticFacts = FACTS, old: Json | None = None, rule: TopologyPlacement = _RULE) -> Json:
    return patch.apply(deepcopy(obj), rule.mutate(request(obj, old=old), facts).operations)


def _pods(obj: Json) -> Any:
    return obj["spec"]["template"]["spec"]["affinity"].get("podAffinity")


def _nodes(*labels: dict[str, str]) -> StaticFacts:
    return StaticFacts(TODAY, cluster_nodes=tuple(Node(f"n{index}", own) for index, own in enumerate(labels)))


def test_pod_affinity_where_nothing_is_known() -> None:
    """Without an inventory a new gang gets Pod affinity to itself beside the labels, on record, and a warning."""
    mutation = _RULE.mutate(request(_job(_asked("rack"))), FACTS)
    changed = patch.apply(_job(_asked("rack")), mutation.operations)
    together = {"required": [{**_OF_JOB, "topologyKey": _RACK}], "created": "podAffinity"}

    assert changed["spec"]["template"]["spec"]["affinity"] == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": _RACK, "operator": "Exists"}]}]
            }
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": together["required"]},
    }
    assert json.loads(changed["metadata"]["annotations"][_RECORD])["spec.template"]["together"] == together
    assert mutation.warnings == (
        (
            'required "rack": no domain was chosen (there is no cluster to ask); Pod affinity keeps its Pods together, '
            "which are placed one by one and may wait for ever"
        ),
    )
    assert _changed(changed) == changed


def test_a_preferred_level_is_preferred_pod_affinity() -> None:
    """A preference alone requires nothing of Nodes."""
    affinity = _changed(_job(_asked(preferred="rack")))["spec"]["template"]["spec"]["affinity"]

    term = {"weight": 100, "podAffinityTerm": {**_OF_JOB, "topologyKey": _RACK}}
    assert affinity == {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    ("nodes", "keys"),
    [
        pytest.param([], ["backend.coreweave.cloud/superpod"], id="unknown"),
        pytest.param(
            [{f"{p}.coreweave.cloud/{n}": "1" for p in ("ib",) for n in ("fabric", "superpod")}],
            ["ib.coreweave.cloud/superpod"],
            id="older-names",
        ),
        pytest.param(
            [{"backend.coreweave.cloud/fabric": f, "backend.coreweave.cloud/superpod": "1"} for f in ("f1", "f2")],
            ["backend.coreweave.cloud/superpod", "backend.coreweave.cloud/fabric"],
            id="of-two-fabrics",
        ),
    ],
)
def test_the_keys_of_pod_affinity(nodes: list[dict[str, str]], keys: list[str]) -> None:
    """The key that Nodes carry, and those of ancestors without which the level is not unique."""
    changed = _changed(_job(_asked("superpod")), _nodes(*nodes))

    terms = _pods(changed)["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == keys


@pytest.mark.parametrize(
    ("obj", "selected"),
    [
        (_set(_asked("rack")), {"labelSelector": {"matchLabels": {"app": "a"}}}),
        (
            resource(
                "jobset.x-k8s.io/v1alpha2", "JobSet",
                {"spec": {"replicatedJobs": [{"replicas": 2, "template": at("spec.template.spec", pod_spec(_GPU))}]}},
                annotations=_asked("rack"),
            ),
            {"labelSelector": {}, "matchLabelKeys": ["jobset.sigs.k8s.io/jobset-name"]},
        ),
        (
            resource(
                "kubeflow.org/v1", "PyTorchJob",
                {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": pod_spec(_GPU)}}}}},
                annotations=_asked("rack"),
            ),
            None,
        ),
    ],
    ids=["StatefulSet", "JobSet", "PyTorchJob"],
)  # fmt: skip
def test_whose_pods_are_told_from_others(obj: Json, selected: Json | None) -> None:
    """By a label that the controller sets, or its selector; elsewhere nothing keeps them together, as is said."""
    mutation = _RULE.mutate(request(obj), FACTS)
    text = json.dumps(patch.apply(obj, mutation.operations)["spec"])

    assert ("podAffinity" in text) == (selected is not None)
    assert selected is None or json.dumps(selected)[1:-1] in text
    assert (
        mutation.warnings[0].startswith('required "rack" keeps Pods on Nodes that have a rack, not in one rack')
    ) == (selected is None)


def test_pod_affinity_of_an_object_that_exists() -> None:
    """It is neither written nor removed later, and a placement changed under it is refused."""
    bare = _set({})
    live = _changed(_set(_asked("rack")))
    moved = merged(live, {"metadata": {"annotations": {_REQUIRED: "superpod"}}})

    assert _pods(_changed(_set(_asked("rack")), FACTS, bare)) is None
    assert _changed(moved, Chooser("7").facts, live) == moved
    assert [violation.summary for violation in _RULE.validate(request(moved, old=live), FACTS)] == [
        "The placement of a StatefulSet is fixed when it is created."
    ]
    assert _changed(_set(_asked("rack")), Chooser("7").facts, live) == live  # put again without what was written


@pytest.mark.parametrize(
    ("ways", "expected"), [(("labels",), "labels"), (("affinity",), "affinity"), (("domain",), "domain")]
)
def test_ways_that_are_permitted(ways: Any, expected: str) -> None:
    """The first permission for the topology and the Namespace decides; without one all but labels are tried."""
    gold = LabelSelector((SelectorRequirement("tier", "In", ("gold",)),))
    permissions = (Permission(("aws",), ways=("domain",)), Permission(("core*",), gold, ways))
    rule = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, placement=permissions))
    facts = StaticFacts(TODAY, namespaces={"default": {"tier": "gold"}}, chooser=Chooser("12"))

    text = json.dumps(_changed(_job(_asked("rack")), facts, rule=rule)["spec"])

    found = "affinity" if "podAffinity" in text else "domain" if '"In"' in text else "labels"
    assert found == expected
    elsewhere = StaticFacts(TODAY, chooser=Chooser("12"))
    assert '"In"' in json.dumps(_changed(_job(_asked("rack")), elsewhere, rule=rule)["spec"])


def _lws(annotations: dict[str, str]) -> Json:
    templates = {name: {"spec": pod_spec(_GPU)} for name in ("leaderTemplate", "workerTemplate")}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, **templates}}
    return resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"spec": spec}, annotations=annotations)


def test_a_leader_worker_set_hands_its_placement_on() -> None:
    """Its templates get the annotations and no domain; they follow those of the workload, and go with them."""
    chooser = Chooser("12")
    live = _changed(_lws(_asked("rack")), chooser.facts)
    templates = live["spec"]["leaderWorkerTemplate"]
    moved = merged(live, {"metadata": {"annotations": {_REQUIRED: "superpod"}}})
    bare = merged(live, {"metadata": {"annotations": {_TOPOLOGY: None, _REQUIRED: None}}})
    for key in (_TOPOLOGY, _REQUIRED):
        del bare["metadata"]["annotations"][key]

    copies = [templates[name]["metadata"]["annotations"] for name in ("leaderTemplate", "workerTemplate")]
    assert (copies, chooser.asked) == ([_asked("rack")] * 2, [])
    assert list(_RULE.validate(request(live), FACTS)) == []
    after = _changed(moved, chooser.facts, live)["spec"]["leaderWorkerTemplate"]
    assert after["workerTemplate"]["metadata"]["annotations"] == _asked("superpod")
    assert (
        "annotations"
        not in _changed(bare, chooser.facts, live)["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]
    )


def _replica_pod(name: str, labels: dict[str, str]) -> Json:
    metadata = {
        "name": name,
        "labels": {f"{_LWS}/name": "serve", **labels},
        "annotations": {**_asked("rack"), f"{_LWS}/size": "4"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve", "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(_GPU)}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(_replica_pod("serve-1", {f"{_LWS}/worker-index": "0"}), id="leader"),
        pytest.param(_replica_pod("serve-1-2", {f"{_LWS}/group-index": "1"}), id="worker"),
    ],
)
def test_each_replica_is_a_gang(pod: Json) -> None:
    """Leader and workers ask about the same gang, in which the leader counts for the whole replica."""
    chooser = Chooser("12")

    changed = _changed(pod, chooser.facts)

    (gang,) = chooser.asked[0].gangs
    assert (gang.key.kind, gang.key.name, gang.key.part, gang.pods) == ("LeaderWorkerSet", "serve", "1", 4)
    assert "12" in json.dumps(changed["spec"]["affinity"])
    alone = _changed(pod)["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert alone == [{"labelSelector": {}, "matchLabelKeys": [f"{_LWS}/group-key"], "topologyKey": _RACK}]


def test_pods_of_a_workload_that_was_placed() -> None:
    """A Pod from a template that was translated is asked about no more, though it has the annotations as well."""
    template = _set({})
    template["spec"]["template"]["metadata"] = {"annotations": _asked("rack")}
    placed = _changed(template, Chooser("12").facts)["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **deepcopy(placed)}
    pod["metadata"] |= {"name": "a-0", "ownerReferences": [{"kind": "StatefulSet", "controller": True}]}
    chooser = Chooser("7")

    assert (_changed(pod, chooser.facts), chooser.asked) == (pod, [])
