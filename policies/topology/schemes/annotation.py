"""Annotations by which Kueue, JobSet and LeaderWorkerSet are told where Pods belong. Each names the key of a label.

Sources: Kueue's "Topology Aware Scheduling", apis/kueue/v1beta2/topology_types.go and the validation in
pkg/controller/jobframework; JobSet's "Exclusive Job to topology placement"; LeaderWorkerSet's API.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from policies.engine.request import JsonObject, mapping
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import Location, Pattern, locate, render
from policies.objects.workload import Workload
from policies.topology.schemes.mention import Mention, Sort

KUEUE, QUEUE = "kueue.x-k8s.io/podset-", "kueue.x-k8s.io/queue-name"
EXCLUSIVE = "exclusive-"
"""A part of the annotations for exclusive placement, and of most misspelt ones."""
_SORTS: Final[Mapping[str, Sort]] = {
    f"{KUEUE}required-topology": "required",
    f"{KUEUE}preferred-topology": "preferred",
    f"{KUEUE}unconstrained-topology": "unconstrained",
    f"{KUEUE}slice-required-topology": "slice",
    f"{KUEUE}slice-required-topology-constraints": "slice",
}
_OF_ALL = tuple(_SORTS)[:3]
_SLICE, _SIZE, _LAYERS = tuple(_SORTS)[3], f"{KUEUE}slice-size", tuple(_SORTS)[4]
_KUEUE_KEYS = (*_SORTS, _SIZE, f"{KUEUE}group-name")
_JOBSET = f"alpha.jobset.sigs.k8s.io/{EXCLUSIVE}topology"
_LWS = tuple(f"leaderworkerset.sigs.k8s.io/{part}{EXCLUSIVE}topology" for part in ("", "subgroup-"))
_NOT_MANAGED = f"has no effect: Kueue manages what has the label {QUEUE}. Add it."


def mentions(obj: JsonObject | None, row: Workload) -> Iterator[Mention]:
    """What the annotations of an object, of its job templates and of its pod templates name."""
    for pattern, is_template in _places(row):
        for place, found in locate(obj, pattern):
            if isinstance(found, dict) and any(EXCLUSIVE in key or key.startswith("kueue.") for key in found):
                yield from _of_kueue(obj, row, (place, found), is_template=is_template)
                yield from _exclusive(obj, row, (place, found), is_template=is_template and () not in row.templates)


@lru_cache(maxsize=256)
def _places(row: Workload) -> tuple[tuple[Pattern, bool], ...]:
    """The places of a kind's annotations, and whether they are those of Pods."""
    pods = tuple((*template, *row.shape.annotations) for template in row.templates)
    above = tuple((*holder, "metadata", "annotations") for holder in ((), *row.jobs))
    return tuple((pattern, pattern in pods) for pattern in dict.fromkeys((*above, *pods)))


def _of_kueue(
    obj: JsonObject | None, row: Workload, at: tuple[Location, JsonObject], *, is_template: bool
) -> Iterator[Mention]:
    place, found = at
    if QUEUE in found:
        problem = f"has no effect: {QUEUE} is a label. Write it under metadata.labels."
        yield Mention((*place, QUEUE), found[QUEUE], "Kueue", "required", problem=problem)
    for key in (key for key in found if key.startswith(KUEUE)):
        location, value, sort = (*place, key), found[key], _SORTS.get(key, "required")
        problem = "" if is_template else _elsewhere(row, "Kueue reads it")
        if key not in _KUEUE_KEYS:
            near = closest(key, _KUEUE_KEYS)
            problem = f"is no annotation that Kueue knows{f': did you mean {near}?' if near else '.'}"
        elif key in _SORTS:
            problem = problem or _of_values(key, found) or ("" if _is_queued(obj, row) else _NOT_MANAGED)
        elif not problem:
            continue
        if key == _LAYERS and not problem:
            yield from _layers(location, value)
        else:
            yield Mention(location, value, "Kueue", sort, problem=problem)


def _of_values(key: str, found: JsonObject) -> str:
    """Why Kueue cannot use an annotation of a template beside the others."""
    value, others = found[key], [one for one in _OF_ALL if one in found and one != key]
    if key in _OF_ALL and others and key != min(key, *others):
        return f"excludes {others[0]}: Kueue takes one of them. Remove one."
    if key.endswith("unconstrained-topology") and value != "true":
        return 'asks for nothing that Kueue can do: only "true" has a meaning. Remove the annotation.'
    if key == _SLICE and _SIZE not in found:
        return f"says nothing about how many Pods a slice has. Add {_SIZE}."
    return ""


def _layers(location: Location, value: Any) -> Iterator[Mention]:
    """The levels in a JSON list of constraints, farthest first."""
    try:
        layers = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        layers = None
    levels = [mapping({"": layer}, "").get("topology") for layer in layers] if isinstance(layers, list) else []
    if not levels or not all(isinstance(level, str) for level in levels):
        problem = 'is no list of slices. Write JSON, such as [{"topology": "example.org/rack", "size": 4}].'
        yield Mention(location, value, "Kueue", "slice", problem=problem)
        return
    yield from (Mention(location, level, "Kueue", "slice") for level in levels)


def _is_queued(obj: JsonObject | None, row: Workload) -> bool:
    """Whether a workload, or one of its pod templates, has the label by which Kueue manages it."""
    holders: Iterable[Pattern] = (("metadata", "labels"), *((*t, *row.shape.labels) for t in row.templates))
    return any(QUEUE in mapping({"": found}, "") for pattern in holders for _, found in locate(obj, pattern))


def _exclusive(
    obj: JsonObject | None, row: Workload, at: tuple[Location, JsonObject], *, is_template: bool
) -> Iterator[Mention]:
    place, found = at
    for key in (key for key in found if EXCLUSIVE in key):
        location, value = (*place, key), found[key]
        if key in (_JOBSET, *_LWS):
            kind = "JobSet" if key == _JOBSET else "LeaderWorkerSet"
            problem = ""
            if row.kind != kind:
                problem = f"has no effect on a {row.kind}: it is for a {kind}. Require the level by {_required()}."
            elif is_template or (place != ("metadata", "annotations") and kind == "LeaderWorkerSet"):
                holders = "of the JobSet or of a Job's template" if kind == "JobSet" else f"of the {kind}"
                problem = f"has no effect here. Write it in the metadata {holders}."
            yield Mention(location, value, kind, "exclusive", problem=problem, groups=_groups(obj, row, place))
        elif (near := closest(key, (_JOBSET, *_LWS))) and "sigs.k8s.io/" in key and not key.startswith(_JOBSET):
            # JobSet has further annotations that begin like this one.
            yield Mention(location, value, row.kind, "exclusive", problem=f"is read by nobody: did you mean {near}?")


def _required() -> str:
    return "kai.scheduler/topology-required-placement"


def _groups(obj: JsonObject | None, row: Workload, place: Location) -> int | None:
    """How many groups of Pods get a domain each: the Jobs of a JobSet, or the replicas of a LeaderWorkerSet."""
    spec = mapping(obj, "spec")
    if row.kind == "LeaderWorkerSet":
        counts: list[Any] = [spec.get("replicas", 1)]
    else:
        jobs = spec.get("replicatedJobs")
        listed = [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
        own = place[:3] if len(place) > 2 else ()
        counts = [job.get("replicas", 1) for index, job in enumerate(listed) if not own or own[2] == index]
    return sum(counts) if all(isinstance(count, int) for count in counts) else None


def _elsewhere(row: Workload, reads: str) -> str:
    where = " or ".join(dict.fromkeys(render((*template, *row.shape.annotations)) for template in row.templates))
    return f"has no effect here: {reads} at {where}. Move it there."
