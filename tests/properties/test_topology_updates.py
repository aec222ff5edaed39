"""A workload is written again: its template carries what is said around it, and nothing of it stays when that goes.

`kubectl apply` merges three objects (lists of terms are atomic), server-side apply replaces the fields that its user
owns, `kubectl replace` sends the manifest as it is, and a controller or `kubectl edit` writes what it has read.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import FACTS, TODAY, WORKLOADS, Json, at, merged, pod_spec, request

from policies.engine import patch
from policies.engine.facts import Facts, StaticFacts
from policies.engine.facts import Node as ClusterNode
from policies.topology.rule import TopologyPlacement
from policies.topology.template import Default, Options
from policies.topology.topology import BUILT_IN, Catalog
from properties.placed import HARD, REQUIRED, SOFT, any_affinities, placements
from properties.shapes import fields, odd, pod_specs


def client_side_apply(live: Json, manifest: Json, last: Json) -> Json:
    """What is in `last` and not in the manifest goes, what is in the manifest comes, the rest of the object stays."""
    result = deepcopy(live)
    for key in last.keys() - manifest.keys():
        result.pop(key, None)
    for key, value in manifest.items():
        found = result.get(key)
        if isinstance(value, dict) and isinstance(found, dict):
            before = last.get(key)
            result[key] = client_side_apply(found, value, before if isinstance(before, dict) else {})
        else:
            result[key] = deepcopy(value)
    return result


def server_side_apply(live: Json, manifest: Json, last: Json) -> Json:
    """The fields of the manifest; those that it had before go, with maps that are empty then; others stay."""
    return _merged(_without(deepcopy(live), last, manifest), manifest)


def _is_field(key: str, value: Any) -> bool:
    return key == REQUIRED or not isinstance(value, dict) or not value


def _without(live: Json, last: Json, manifest: Json) -> Json:
    for key, value in last.items():
        if key not in live:
            continue
        kept = manifest.get(key)
        if _is_field(key, value):
            if key not in manifest:
                del live[key]
            continue
        live[key] = _without(live[key], value, kept if isinstance(kept, dict) else {})
        if not live[key] and key not in manifest:
            del live[key]
    return live


def _merged(live: Json, manifest: Json) -> Json:
    for key, value in manifest.items():
        found = live.get(key)
        if _is_field(key, value) or not isinstance(found, dict):
            live[key] = deepcopy(value) if not (value == {} and isinstance(found, dict)) else found
        else:
            live[key] = _merged(found, value)
    return live


def replace(live: Json, manifest: Json, last: Json) -> Json:  # noqa: ARG001
    """The manifest."""
    return deepcopy(manifest)


_CATALOG = Catalog(BUILT_IN)
_RULE = TopologyPlacement(_CATALOG, Options(WORKLOADS))
_CONTRADICTION = "The preferred placement must be inside the required one."
_many = settings(max_examples=200)
_TOPOLOGY = "kai.scheduler/topology"
_TOPOLOGIES = ("coreweave", "coreweave-infiniband", "coreweave-roce")
_annotations: st.SearchStrategy[Json] = st.one_of(
    st.just({}), placements(_TOPOLOGIES).map(lambda placed: dict(placed.annotations))
)
_WAYS = st.sampled_from([client_side_apply, server_side_apply, replace])
_KINDS = st.sampled_from(["Deployment", "StatefulSet", "Job"])


def _workload(kind: str, around: Json, own: Json) -> Json:
    spec: Json = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec({"nvidia.com/gpu": 8})}}
    if own:
        spec["template"]["metadata"]["annotations"] = dict(own)
    if kind == "Job":
        spec["suspend"] = True
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "annotations": dict(around)}, "spec": spec}


def _admitted(obj: Json, old: Json | None = None) -> Json:
    return patch.apply(obj, _RULE.mutate(request(obj, old=old), FACTS).operations)


def _of_template(obj: Json) -> Any:
    return obj["spec"]["template"]["metadata"].get("annotations") or {}


@_many
@given(_KINDS, _annotations, _annotations, _annotations)
def test_writing_twice_is_writing_once(kind: str, around: Json, own: Json, before: Json) -> None:
    """Created or updated, what was written once is written: nothing more is to do, and the object is not touched."""
    old = _admitted(_workload(kind, before, own))
    obj = _workload(kind, around, own)
    sent = deepcopy(obj)

    for earlier in (None, old):
        once = _admitted(obj, earlier)
        assert obj == sent
        assert _admitted(once, earlier) == once
        assert _admitted(once, once) == once


@_many
@given(_KINDS, _annotations, _annotations)
def test_a_placement_that_comes_and_goes(kind: str, around: Json, own: Json) -> None:
    """A template has back what it had before its workload was placed, but for what was the same there anyway."""
    manifest = _workload(kind, {}, own)
    placed = deepcopy(live := _admitted(manifest))
    placed["metadata"]["annotations"] = dict(around)
    after = deepcopy(second := _admitted(placed, live))
    after["metadata"]["annotations"] = {}

    left = _of_template(_admitted(after, second))

    expected = {key: value for key, value in own.items() if around.get(key) != value}
    if expected:  # what is its own needs its topology
        expected[_TOPOLOGY] = own[_TOPOLOGY]
    assert left == expected


@_many
@given(_KINDS, _annotations, _annotations, _WAYS)
def test_a_manifest_that_is_applied_again(kind: str, first: Json, second: Json, way: Any) -> None:
    """However a manifest without annotations of its template is applied, the template carries what it says now."""
    old_manifest, manifest = _workload(kind, first, {}), _workload(kind, second, {})
    live = _admitted(old_manifest)

    changed = _admitted(way(live, manifest, old_manifest), live)

    found = _RULE.validate(request(changed, old=live), FACTS)
    if not [each for each in found if not each.verdict and each.summary != _CONTRADICTION]:
        assert _of_template(changed) == second
    assert _admitted(way(changed, manifest, manifest), changed) == changed


_EACH_RULE = st.sampled_from(
    [
        _RULE,
        TopologyPlacement(_CATALOG, Options(WORKLOADS, default=Default("coreweave"), unapplied="deny")),
        TopologyPlacement(_CATALOG, Options(WORKLOADS, clustered=False)),
    ]
)
_NODES = (ClusterNode("n0", {"backend.coreweave.cloud/superpod": "3"}), ClusterNode("n1", {}))
_FACTS = st.sampled_from([FACTS, StaticFacts(TODAY, cluster_nodes=_NODES)])
_OURS = ("affinity", "annotations", "schedulingGates", "cks-admission.dev/gang")
_WORDS = ["coreweave", "superpod", "rack=1", "superpod=3", "", " ", "x", "fabric in (1", "hostname"]
_texts = st.sampled_from(_WORDS) | st.text(max_size=8)


@st.composite
def _any_annotations(draw: st.DrawFn) -> Any:
    found: Json = dict(draw(placements()).annotations)
    for key in (_TOPOLOGY, HARD, SOFT):
        if not draw(st.integers(0, 3)):
            found[key] = draw(odd(_texts))
    return found


_METADATA = fields(
    annotations=_any_annotations(),
    labels=st.just({"kai.scheduler/queue": "a"}),
    ownerReferences=st.just([{"controller": True}]),
    deletionTimestamp=st.just("2026-03-01T00:00:00Z"),
)
_OWN_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "annotations": _any_annotations().map(
            lambda found: {key: text for key, text in found.items() if isinstance(text, str)}
        ),
        "labels": st.just({"kai.scheduler/queue": "a"}),
    },
)
_SPECS = st.builds(
    lambda spec, affinity, scheduler: {**spec, "affinity": affinity, "schedulerName": scheduler},
    pod_specs,
    odd(any_affinities),
    odd(st.sampled_from(["", "kai-scheduler", "team-slurm-scheduler"])),
)
_TEMPLATES = fields(metadata=_METADATA, spec=_SPECS)
_TEMPLATE_PLACES = {
    "v1 Pod": "",
    "apps/v1 Deployment": "spec.template",
    "batch/v1 Job": "spec.template",
    "batch/v1 CronJob": "spec.jobTemplate.spec.template",
    "jobset.x-k8s.io/v1alpha2 JobSet": "spec.replicatedJobs[0].template.spec.template",
    "kubeflow.org/v2beta1 MPIJob": "spec.mpiReplicaSpecs.Worker.template",
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": "spec.leaderWorkerTemplate.workerTemplate",
    "serving.knative.dev/v1 Service": "spec.template",
}


@st.composite
def _objects(draw: st.DrawFn, kind: str) -> Json:
    path = _TEMPLATE_PLACES[kind]
    api_version, _, name = kind.partition(" ")
    template = draw(odd(_TEMPLATES))
    metadata = draw(_OWN_METADATA)  # which the API server has decoded, whatever the kind
    if not path:
        own = template.get("spec") if isinstance(template, dict) else None
        return {"apiVersion": api_version, "kind": name, "metadata": metadata, "spec": own}
    spec = {"suspend": True} if draw(st.booleans()) else {}
    return merged({"apiVersion": api_version, "kind": name, "metadata": metadata, "spec": spec}, at(path, template))


def _without_ours(value: Any) -> Any:
    """The object without what is ours, and without maps that are empty then, since they may be new."""
    if isinstance(value, dict):
        found = {key: _without_ours(inner) for key, inner in value.items() if key not in _OURS}
        return {key: inner for key, inner in found.items() if inner not in ({}, None)}
    return [_without_ours(each) for each in value] if isinstance(value, list) else value


@settings(max_examples=400)
@given(st.data(), st.sampled_from(sorted(_TEMPLATE_PLACES)), _EACH_RULE, _FACTS)
def test_any_object(data: st.DataObject, kind: str, rule: TopologyPlacement, facts: Facts) -> None:
    """The patch applies, once is enough, it is of what is ours only, and every object is judged."""
    obj = data.draw(_objects(kind))
    old = data.draw(st.one_of(st.none(), st.just(obj), _objects(kind)))
    sent = deepcopy((obj, old))

    mutation = rule.mutate(request(obj, old=old, namespace="default", name="a"), facts)
    changed = patch.apply(obj, mutation.operations)
    again = rule.mutate(request(changed, old=old, namespace="default", name="a"), facts)
    found = rule.validate(request(changed, old=old, namespace="default", name="a"), facts)

    assert (obj, old) == sent
    assert again.operations == ()
    assert _without_ours(changed) == _without_ours(obj)
    assert [each for each in found if "\n" in each.warning] == []
