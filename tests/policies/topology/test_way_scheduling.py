"""The ways `workload` and `kueue` in the rule: what is written for whom, what an update may do, and what is undone."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any
from unittest.mock import Mock

from policies.topology.scheduling.podgroup import RecordKey
from policies.topology.scheduling.support import Form, Support, SupportKey
from support.builders import TODAY, WORKLOADS, Json, merged, owner, pod, pod_spec, request

from policies.engine.facts import Facts, Node, StaticFacts
from policies.objects import patch
from policies.topology.affinity import REQUIRED as MUST
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Options
from policies.topology.rule import TopologyPlacement
from policies.topology.scheduling.kueue import FlavorsKey
from policies.topology.scheduling.workload import constraints, scheduling

_TOPOLOGY, _RECORD = "kai.scheduler/topology", "cks-admission.dev/topology"
_REQUIRED = f"{_TOPOLOGY}-required-placement"
_RACK = "node.coreweave.cloud/rack"
_KUEUE = "kueue.x-k8s.io/podset-required-topology"
_NODES = tuple(Node(f"n{number}", {_RACK: str(number)}) for number in range(2))
_ON, _OFF = (TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, schedules=on)) for on in (True, False))
_TERM = {"matchExpressions": [{"key": _RACK, "operator": "Exists"}]}
_QUEUED = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}}


def _job(required: str | None = "rack", **spec: Any) -> Json:
    annotations = {} if required is None else {_TOPOLOGY: "coreweave", _REQUIRED: required}
    indexed = {"parallelism": 8, "completions": 8, "completionMode": "Indexed"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {**indexed, "template": {"metadata": {}, "spec": pod_spec({"nvidia.com/gpu": 8})}, **spec},
    }


def _facts(form: Form) -> Facts:
    facts = StaticFacts(TODAY, cluster_nodes=_NODES)
    return facts.entered(SupportKey(), Support(form, "" if form else "the gates are off"))


def _written(obj: Json, facts: Facts, rule: TopologyPlacement = _ON, old: Json | None = None) -> tuple[Json, list[str]]:
    """The object as it is stored, and the warnings."""
    mutation = rule.mutate(request(obj, old=old), facts)
    return patch.apply(obj, mutation.operations), list(mutation.warnings)


def _entry(obj: Json) -> Json:
    entry: Json = json.loads(obj["metadata"]["annotations"][_RECORD])["spec.template"]
    return entry


def _terms(obj: Json) -> Any:
    return obj["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][MUST]["nodeSelectorTerms"]


def test_a_job_gets_the_constraint_of_kubernetes() -> None:
    """Where Jobs have the field, a required level becomes Kubernetes' own constraint, recorded, and no Pod affinity."""
    stored, warnings = _written(_job(), _facts("Job"))

    assert stored["spec"]["scheduling"] == scheduling(_RACK)
    assert (_terms(stored), _entry(stored)["scheduling"]) == ([_TERM], _RACK)
    assert warnings == [
        f'required "rack": kube-scheduler starts all Pods in one rack, a value of {_RACK}, or none of them'
    ]


def test_in_1_36_the_constraint_goes_into_the_pod_group() -> None:
    """The Job gets only the record; the PodGroup that is made for it gets the constraint by that."""
    stored, _ = _written(_job(), _facts("PodGroup"))
    text = stored["metadata"]["annotations"][_RECORD]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "ownerReferences": [{"kind": "Workload", "name": "w"}, reference]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 8}}},
    }
    own = merged(group, {"spec": {"schedulingConstraints": {"topology": []}}})
    key = RecordKey("default", "train", "u1")

    assert "scheduling" not in stored["spec"]
    assert _written(group, StaticFacts(TODAY).entered(key, text))[0] == merged(
        group, {"spec": {"schedulingConstraints": constraints(_RACK)}}
    )
    for other in ("", "{}", "no record"):
        assert _written(group, StaticFacts(TODAY).entered(key, other))[0] == group
    assert _written(own, StaticFacts(TODAY))[0] == own
    assert (
        _written(merged(group, {"metadata": {"ownerReferences": []}}), StaticFacts(TODAY))[0]["spec"] == group["spec"]
    )


def test_without_support_or_permission_another_way_is_taken() -> None:
    """With the gates off, or the setting, nothing of Kubernetes' own scheduling is written."""
    for facts, rule in ((_facts(""), _ON), (_facts("Job"), _OFF)):
        stored, _ = _written(_job(), facts, rule)

        assert "scheduling" not in stored["spec"]
        assert "scheduling" not in _entry(stored)


def test_an_update_keeps_the_constraint() -> None:
    """A manifest that is replaced gets constraint and record back, an existing Job never gets or loses them."""
    stored, _ = _written(_job(), _facts("Job"))
    annotated = merged(stored, {"metadata": {"labels": {"a": "b"}}})
    plain, _ = _written(_job(), _facts(""))

    assert _written(_job(), _facts("Job"), old=stored)[0] == stored
    assert _written(annotated, _facts("Job"), old=stored)[0] == annotated
    assert _written(_job(None), _facts("Job"), old=stored)[0]["spec"]["scheduling"] == stored["spec"]["scheduling"]
    assert "scheduling" not in _written(plain, _facts("Job"), old=plain)[0]["spec"]


def test_a_changed_placement_is_refused() -> None:
    """The constraint of a Job can never be changed, so a changed placement is refused, suspended or not."""
    stored, _ = _written(_job(suspend=True), _facts("Job"))
    other = merged(stored, {"metadata": {"annotations": {_REQUIRED: "superpod"}}})

    violations = _ON.validate(request(other, old=stored), _facts("Job"))

    assert [violation.verdict for violation in violations if "fixed" in violation.summary] == [""]
    assert stored["spec"]["scheduling"] == scheduling(_RACK)


def test_a_queued_job_gets_kueues_annotation() -> None:
    """What Kueue manages gets its annotation, recorded, and no domain; it is undone with the placement."""
    facts = _facts("Job").entered(FlavorsKey(), frozenset({"coreweave"}))
    queued = merged(_job(suspend=True), _QUEUED)
    stored, warnings = _written(queued, facts)
    bare = deepcopy(stored)
    del bare["metadata"]["annotations"][_TOPOLOGY], bare["metadata"]["annotations"][_REQUIRED]

    assert stored["spec"]["template"]["metadata"]["annotations"] == {_KUEUE: _RACK}
    assert (_entry(stored)["annotations"], "scheduling" in stored["spec"], warnings) == ([[_KUEUE, _RACK]], False, [])
    assert _written(stored, facts)[0] == stored
    assert _written(bare, facts, old=stored)[0]["spec"]["template"] == {
        **queued["spec"]["template"],
        "metadata": {},
    }


def test_pods_that_others_place_are_left_to_them() -> None:
    """A Pod that copied the placement from its template, with Kueue's annotation or a PodGroup, gets nothing chosen."""
    chooser = Mock(side_effect=AssertionError("a domain is to be chosen"))
    facts = StaticFacts(TODAY, cluster_nodes=_NODES, chooser=chooser)
    annotations = {_TOPOLOGY: "coreweave", _REQUIRED: "rack"}
    metadata = {"annotations": annotations, **owner("Job")}
    grouped = pod(metadata=metadata, schedulingGroup={"podGroupName": "g"})
    queued = pod(metadata={**metadata, "annotations": {**annotations, _KUEUE: _RACK}})

    for made in (grouped, queued):
        stored, warnings = _written(made, facts)
        affinity = stored["spec"]["affinity"]
        assert affinity == {"nodeAffinity": {MUST: {"nodeSelectorTerms": [_TERM]}}}
        assert warnings == []


def test_without_a_flavor_the_author_is_told() -> None:
    """A topology that no ResourceFlavor names keeps Kueue from admitting the workload, and the answer says so."""
    facts = _facts("").entered(FlavorsKey(), frozenset({"dgx"}))

    assert _written(merged(_job(), _QUEUED), facts)[1] == [
        'no ResourceFlavor of Kueue names topology "coreweave", so Kueue admits nothing that needs it'
    ]
