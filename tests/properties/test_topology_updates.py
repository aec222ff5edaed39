"""A workload is written again: its template carries what is said around it, and nothing of it stays when that goes.

`kubectl apply` merges three objects (lists of terms are atomic), server-side apply replaces the fields that its user
owns, `kubectl replace` sends the manifest as it is, and a controller or `kubectl edit` writes what it has read.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import FACTS, WORKLOADS, Json, pod_spec, request

from policies.engine import patch
from policies.topology.rule import TopologyPlacement
from policies.topology.template import Options
from policies.topology.topology import BUILT_IN, Catalog
from properties.placed import placements

_ATOMIC = frozenset({"requiredDuringSchedulingIgnoredDuringExecution"})


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
    """The fields of the manifest; those that it had before go; others stay. A node selector is one field.

    Maps that are empty once their fields are gone go with them.
    """
    result = _without(deepcopy(live), last, manifest)
    return _merged(result, manifest)


def _is_field(key: str, value: Any) -> bool:
    return key in _ATOMIC or not isinstance(value, dict) or not value


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


_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS))
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


def _of_template(obj: Json) -> Json:
    found: Json = obj["spec"]["template"]["metadata"].get("annotations") or {}
    return found


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
