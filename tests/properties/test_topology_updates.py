"""A workload is written again: what comes of it is what its manifest says, translated afresh.

One exception is known: who writes by hand exactly a term that was recorded as ours is taken to have left it there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.builders import WORKLOADS, Json, pod_spec, request
from support.choices import Chooser

from policies.objects import patch
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.constraint import Options
from policies.topology.rule import TopologyPlacement
from properties.nodes import PREFERRED, REQUIRED
from properties.placed import placements, valid_affinities, valid_preferred, valid_terms
from properties.updates import client_side_apply, replace, server_side_apply

_CONTRADICTIONS = ("The preferred placement must be inside the required one.", "No Node can take the Pods.")
_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS))
_RECORD = "cks-admission.dev/topology"
_DECISION = "cks-admission.dev/placement"
_FACTS = Chooser("9").facts
_GPU = {"nvidia.com/gpu": 8}
_bounded = settings(max_examples=150)


class _Wish(NamedTuple):
    """What a manifest says of one template, or of the workload."""

    annotations: Json
    affinity: Any = None
    scheduler: str = ""


_TOPOLOGIES = ("coreweave", "coreweave-infiniband", "coreweave-roce")
_annotations: st.SearchStrategy[Json] = st.one_of(
    st.just({}), placements(_TOPOLOGIES).map(lambda placed: placed.annotations)
)
_schedulers = st.sampled_from(["", "", "", "kai-scheduler", "other"])
_wishes = st.builds(_Wish, _annotations, valid_affinities, _schedulers)
_placed_wishes = st.builds(
    _Wish,
    placements(_TOPOLOGIES).filter(lambda placed: placed.required or placed.preferred).map(lambda p: p.annotations),
    valid_affinities,
)


def _template(wish: _Wish, *, annotated: bool) -> Json:
    own = {} if wish.affinity is None else {"affinity": deepcopy(wish.affinity)}
    own |= {"schedulerName": wish.scheduler} if wish.scheduler else {}
    metadata = {"labels": {"app": "a"}, **({"annotations": dict(wish.annotations)} if annotated else {})}
    return {"metadata": metadata, "spec": pod_spec(_GPU, **own)}


def _object(api_version: str, kind: str, annotations: Json, spec: Json) -> Json:
    metadata = {"name": "a", "annotations": dict(annotations)}  # kubectl puts one there, so that the map stays
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _deployment(first: _Wish, second: _Wish) -> Json:
    del second
    return _object("apps/v1", "Deployment", first.annotations, {"template": _template(first, annotated=False)})


def _annotated_below(first: _Wish, second: _Wish) -> Json:
    """The template's own annotations count where they say something."""
    template = _template(first, annotated=True)
    return _object("apps/v1", "StatefulSet", second.annotations, {"template": template})


def _stateful_set(wish: _Wish) -> Json:
    return _object("apps/v1", "StatefulSet", wish.annotations, {"template": _template(wish, annotated=False)})


def _cron_job(first: _Wish, second: _Wish) -> Json:
    job = {"spec": {"template": _template(first, annotated=False)}}
    if second.annotations:
        job["metadata"] = {"annotations": dict(second.annotations)}
    return _object("batch/v1", "CronJob", first.annotations, {"jobTemplate": job})


def _suspended_job(first: _Wish, second: _Wish) -> Json:
    del second
    spec = {"suspend": True, "template": _template(first, annotated=False)}
    return _object("batch/v1", "Job", first.annotations, spec)


def _leader_worker_set(first: _Wish, second: _Wish) -> Json:
    templates = {
        "leaderTemplate": _template(second, annotated=bool(second.annotations)),
        "workerTemplate": _template(first, annotated=False),
    }
    group = "leaderworkerset.x-k8s.io/v1"
    return _object(group, "LeaderWorkerSet", first.annotations, {"leaderWorkerTemplate": templates})


_Shape = Callable[[_Wish, _Wish], Json]
_SHAPES = [_deployment, _annotated_below, _cron_job, _suspended_job, _leader_worker_set]
_WAYS = [client_side_apply, server_side_apply, replace]


def _admitted(obj: Json, old: Json | None = None) -> Json:
    return patch.apply(obj, _RULE.mutate(request(obj, old=old), _FACTS).operations)


def _affinities(value: Any) -> Iterator[Any]:
    """The affinity of each template, without maps that say nothing."""
    if isinstance(value, dict):
        if "containers" in value:
            yield _said(value.get("affinity"))
        else:
            for key in sorted(value):
                yield from _affinities(value[key])


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: _said(inner) for key, inner in value.items()}
        return {
            key: inner for key, inner in found.items() if inner not in (None, {}, []) or key == "preference"
        } or None
    if isinstance(value, list):
        return [_said(each) for each in value]
    return value


def _asked(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The annotations, wherever they stand, but for the record."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "annotations":
                yield from (
                    (f"{at}/{name}", text) for name, text in sorted(inner.items()) if name not in (_RECORD, _DECISION)
                )
            else:
                yield from _asked(inner, f"{at}/{key}")


def _outcome(obj: Json) -> Any:
    return sorted(_asked(obj)), list(_affinities(obj))


def _terms(obj: Json) -> list[Any]:
    """All terms of an object's templates."""
    found = []
    for affinity in _affinities(obj):
        node = (affinity or {}).get("nodeAffinity") or {}
        found += [*((node.get(REQUIRED) or {}).get("nodeSelectorTerms") or []), *(node.get(PREFERRED) or [])]
    return found


def _is_known_exception(live: Json, manifest: Json) -> bool:
    """Whether the manifest has terms or annotations of templates that the record says are ours."""
    text = live["metadata"].get("annotations", {}).get(_RECORD)
    ours = []
    entries = list(json.loads(text).values()) if text else []
    for entry in [*entries, *(earlier for last in entries for earlier in last.get("earlier", []))]:
        ours += [*entry.get("preferred", []), *(term for each in entry.get("required", []) for term in each["to"])]
    copies = [(key, text) for entry in entries for key, text in entry.get("annotations", [])]
    below = [(place.rpartition("annotations/")[2], text) for place, text in _asked(manifest["spec"])]
    return any(_said(term) in _terms(manifest) for term in ours) or any(
        place.endswith(f"/{key}") and text == own for place, text in below for key, own in copies
    )


@pytest.mark.parametrize("way", _WAYS)
@_bounded
@given(st.sampled_from(_SHAPES), st.lists(st.tuples(_wishes, _wishes), min_size=2, max_size=4))
def test_manifests_that_are_written_again(
    way: Callable[[Json, Json, Json], Json], shape: _Shape, wishes: list[tuple[_Wish, _Wish]]
) -> None:
    """However often a manifest changes and is written again, its last state alone decides."""
    first, *others = (shape(*each) for each in wishes)
    live, last = _admitted(first), first
    for manifest in others:
        assume(not _is_known_exception(live, manifest))
        sent = way(live, manifest, last)

        live, last = _admitted(sent, live), manifest

        assert _outcome(live) == _outcome(_admitted(manifest))
        assert _outcome(_admitted(way(live, manifest, last), live)) == _outcome(live)


@_bounded
@given(st.lists(_placed_wishes, min_size=2, max_size=4), st.data())
def test_templates_that_are_rolled_back(wishes: list[_Wish], data: st.DataObject) -> None:
    """The template of an earlier revision comes to what its manifest said then, with the annotations of now."""
    manifests = [_stateful_set(wish) for wish in wishes]
    live, last = _admitted(manifests[0]), manifests[0]
    revisions = [deepcopy(live["spec"]["template"])]
    for manifest in manifests[1:]:
        assume(not _is_known_exception(live, manifest))
        live, last = _admitted(client_side_apply(live, manifest, last), live), manifest
        assume(_RECORD in live["metadata"]["annotations"])  # where nothing is written nothing is remembered
        revisions.append(deepcopy(live["spec"]["template"]))
    assume(not any(_is_known_exception(live, manifest) for manifest in manifests))
    back = data.draw(st.integers(0, len(wishes) - 1))

    undone = _admitted({**live, "spec": {**live["spec"], "template": deepcopy(revisions[back])}}, live)

    expected = _stateful_set(wishes[back]._replace(annotations=wishes[-1].annotations))
    assert list(_affinities(undone)) == list(_affinities(_admitted(expected)))


def _template_of(obj: Json) -> Json:
    found: Json = obj["spec"]["template"]["spec"]
    return found


def _reannotate(annotations: Json) -> Callable[[Json], None]:
    def edit(obj: Json) -> None:
        kept = {key: value for key, value in obj["metadata"]["annotations"].items() if key == _RECORD}
        obj["metadata"]["annotations"] = {**kept, **annotations}

    return edit


def _append(path: tuple[str, ...], item: Any) -> Callable[[Json], None]:
    def edit(obj: Json) -> None:
        place = _template_of(obj)
        for key in path[:-1]:
            place[key] = place.get(key) or {}
            place = place[key]
        place[path[-1]] = [*(place.get(path[-1]) or []), deepcopy(item)]

    return edit


def _drop(path: tuple[str, ...]) -> Callable[[Json], None]:
    def edit(obj: Json) -> None:
        place = _template_of(obj)
        for key in path[:-1]:
            place = place.get(key) or {}
        place.pop(path[-1], None)

    return edit


def _schedule(name: str) -> Callable[[Json], None]:
    return lambda obj: _template_of(obj).__setitem__("schedulerName", name)


_NODE = ("affinity", "nodeAffinity")
_edits = st.one_of(
    _annotations.map(_reannotate),
    valid_terms.map(lambda term: _append((*_NODE, REQUIRED, "nodeSelectorTerms"), term)),
    valid_preferred.map(lambda term: _append((*_NODE, PREFERRED), term)),
    st.sampled_from([("affinity",), _NODE, (*_NODE, REQUIRED), (*_NODE, PREFERRED)]).map(_drop),
    st.sampled_from(["", "kai-scheduler"]).map(_schedule),
)


@_bounded
@given(_wishes, st.lists(st.lists(_edits, min_size=1, max_size=2), min_size=1, max_size=4))
def test_objects_that_are_read_edited_and_put_back(wish: _Wish, steps: list[list[Callable[[Json], None]]]) -> None:
    """Edits of the live object come to what the same edits of the manifest would."""
    manifest = _deployment(wish, wish)
    live = _admitted(manifest)
    for edits in steps:
        manifest, sent = deepcopy(manifest), deepcopy(live)
        for edit in edits:
            edit(manifest)
            edit(sent)
        assume(not _is_known_exception(live, manifest))

        live = _admitted(sent, live)

        assert list(_affinities(live)) == list(_affinities(_admitted(manifest)))


def _running_job(wish: _Wish) -> Json:
    return _object("batch/v1", "Job", wish.annotations, {"template": _template(wish, annotated=False)})


def _mpi_job(wish: _Wish) -> Json:
    launcher: Json = {"template": {"spec": pod_spec()}}
    replicas = {"Launcher": launcher, "Worker": {"template": _template(wish, annotated=False)}}
    return _object("kubeflow.org/v2beta1", "MPIJob", wish.annotations, {"mpiReplicaSpecs": replicas})


@pytest.mark.parametrize("way", _WAYS)
@_bounded
@given(st.sampled_from([_running_job, _mpi_job]), _wishes, _annotations)
def test_kinds_whose_affinity_is_fixed(
    way: Callable[[Json, Json, Json], Json], shape: Callable[[_Wish], Json], wish: _Wish, annotations: Json
) -> None:
    """The same manifest asks for no change; another placement is not applied, and is refused if it is another one."""
    wish = wish._replace(scheduler="")
    manifest = shape(wish)
    live = _admitted(manifest)
    other = shape(wish._replace(annotations=annotations))
    assume(not _is_known_exception(live, manifest))

    again = _admitted(way(live, manifest, manifest), live)
    sent = way(live, other, manifest)
    changed = _admitted(sent, live)
    refused = [each.summary for each in _RULE.validate(request(changed, old=live), _FACTS) if each.verdict == ""]
    fixed = f"The placement of a {live['kind']} is fixed when it is created."

    assert _outcome(again) == _outcome(live)
    same = list(_affinities(_admitted(other))) == list(_affinities(live))
    told = [summary for summary in refused if summary not in _CONTRADICTIONS]
    assert told == [fixed] * len(told[:1])  # another placement may come to the same terms, and is refused still
    assert list(_affinities(changed)) == list(_affinities(live if same else sent)) or (told and same)
    # Own terms may meet the new placement as they are, though a new object would get more of them.
    assert told or same or annotations == wish.annotations or "required" in json.dumps(wish.affinity)
    assert not told or annotations != wish.annotations
