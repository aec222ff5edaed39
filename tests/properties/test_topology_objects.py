"""Topology annotations on any object: there is an answer, the patch applies, and nothing else is changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import FACTS, TODAY, WORKLOADS, Json, at, merged, request

from policies.engine import patch
from policies.engine.facts import Facts, StaticFacts
from policies.engine.facts import Node as ClusterNode
from policies.topology.rule import TopologyPlacement
from policies.topology.template import Default, Options
from policies.topology.topology import BUILT_IN, Catalog
from properties.placed import any_affinities, placements
from properties.shapes import fields, odd, pod_specs

_many = settings(max_examples=400)
_CATALOG = Catalog(BUILT_IN)
_RULES = st.sampled_from(
    [
        TopologyPlacement(_CATALOG, Options(WORKLOADS)),
        TopologyPlacement(_CATALOG, Options(WORKLOADS, default=Default("coreweave"), unapplied="deny")),
        TopologyPlacement(_CATALOG, Options(WORKLOADS, clustered=False)),
    ]
)
_NODES = (ClusterNode("n0", {"backend.coreweave.cloud/superpod": "3"}), ClusterNode("n1", {}))
_FACTS = st.sampled_from([FACTS, StaticFacts(TODAY, cluster_nodes=_NODES)])
_OURS = ("affinity", "annotations", "schedulingGates", "cks-admission.dev/gang")
_texts = st.one_of(
    st.sampled_from(["coreweave", "superpod", "rack=1", "superpod=3", "", " ", "x", "fabric in (1", "hostname"]),
    st.text(max_size=8),
)


@st.composite
def _annotations(draw: st.DrawFn) -> Any:
    found: Json = dict(draw(placements()).annotations)
    for key in (
        "kai.scheduler/topology",
        *(f"kai.scheduler/topology-{s}-placement" for s in ("required", "preferred")),
    ):
        if not draw(st.integers(0, 3)):
            found[key] = draw(odd(_texts))
    return found


_METADATA = fields(
    annotations=_annotations(),
    labels=st.just({"kai.scheduler/queue": "a"}),
    ownerReferences=st.just([{"controller": True}]),
    deletionTimestamp=st.just("2026-03-01T00:00:00Z"),
)
_OWN_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "annotations": _annotations().map(
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
_KINDS = {
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
    path = _KINDS[kind]
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


@_many
@given(st.data(), st.sampled_from(sorted(_KINDS)), _RULES, _FACTS)
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
