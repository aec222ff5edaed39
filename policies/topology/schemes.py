"""Levels that objects name in the ways of other schedulers, and what is wrong with them by topologies and Nodes.

Sources: Kueue's "Topology Aware Scheduling", apis/kueue/v1beta2/topology_types.go and the validation in
pkg/controller/jobframework; JobSet's "Exclusive Job to topology placement"; LeaderWorkerSet's API;
operator/api/core/v1alpha1/podcliqueset.go of Grove (`packDomain` before `pack`), the topology types of the operator of
Dynamo, pkg/apis/scheduling/v2alpha2/podgroup_types.go of KAI Scheduler; pkg/apis/trainer/v1alpha1/trainjob_types.go of
Kubeflow's Trainer: `annotations` and `podTemplateOverrides` up to 2.1, `runtimePatches` after.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec import Struct

from policies import vocabulary
from policies.engine.facts import Node
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_owned, mapping
from policies.engine.violation import WARNING_COUNT, Violation, quote
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import Location, Pattern, locate, lookup, parse, render
from policies.objects.workload import Workload
from policies.topology.annotation import ANNOTATIONS, PREFERRED, REQUIRED, TOPOLOGY
from policies.topology.placement import PlacementError
from policies.topology.placement import parse as parse_placement
from policies.topology.template import as_warning
from policies.topology.topology import Catalog, Level, Topology

Sort = Literal["required", "preferred", "slice", "unconstrained", "exclusive"]
"""What is asked of the domains: all Pods in one, as near together as can be, a part of the Pods in one, room on any
Nodes, or one for each group of Pods that no other such group shares."""


class Mention(Struct, frozen=True):
    """What is named, and where.

    location, value: of the annotation or field. reader: who acts on it. topology: the name of the topology whose level
    is meant; None where the value is the key of a node label. problem: why nobody acts on it, or will not as it is
    written, with what to do; empty if only the level has to be looked at. groups: how many groups of Pods need a domain
    each; None if it is not known.
    """

    location: Location
    value: Any
    reader: str
    sort: Sort
    topology: Any = None
    problem: str = ""
    groups: int | None = None

    @property
    def path(self) -> str:
        """The location as Kubernetes writes field paths."""
        return render(self.location)


def mentions(obj: JsonObject | None, kind: tuple[str, str], row: Workload | None) -> Iterator[Mention]:
    """All that an object names. kind: its group and kind. row: of the table of workloads, or None."""
    if obj is None:
        return
    if row is not None:
        yield from _of_annotations(obj, row)
    yield from _of_fields(obj, kind)
    if kind == TRAIN_JOB:
        yield from _of_trainjob(obj)


KUEUE, QUEUE = "kueue.x-k8s.io/podset-", "kueue.x-k8s.io/queue-name"
EXCLUSIVE = "exclusive-"
"""A part of the annotations for exclusive placement, and of most misspelt ones."""
_KUEUE_SORTS: Final[Mapping[str, Sort]] = {
    f"{KUEUE}required-topology": "required",
    f"{KUEUE}preferred-topology": "preferred",
    f"{KUEUE}unconstrained-topology": "unconstrained",
    f"{KUEUE}slice-required-topology": "slice",
    f"{KUEUE}slice-required-topology-constraints": "slice",
}
_OF_ALL = tuple(_KUEUE_SORTS)[:3]
_SLICE, _SIZE, _LAYERS = tuple(_KUEUE_SORTS)[3], f"{KUEUE}slice-size", tuple(_KUEUE_SORTS)[4]
_KUEUE_KEYS = (*_KUEUE_SORTS, _SIZE, f"{KUEUE}group-name")
_JOBSET = f"alpha.jobset.sigs.k8s.io/{EXCLUSIVE}topology"
_LWS = tuple(f"leaderworkerset.sigs.k8s.io/{part}{EXCLUSIVE}topology" for part in ("", "subgroup-"))
_NOT_MANAGED = f"has no effect: Kueue manages what has the label {QUEUE}. Add it."


def _of_annotations(obj: JsonObject | None, row: Workload) -> Iterator[Mention]:
    """What the annotations of an object, of its job templates and of its pod templates name."""
    for pattern, is_template in _annotated_places(row):
        for place, found in locate(obj, pattern):
            if isinstance(found, dict) and any(EXCLUSIVE in key or key.startswith("kueue.") for key in found):
                yield from _of_kueue(obj, row, (place, found), is_template=is_template)
                yield from _exclusive(obj, row, (place, found), is_template=is_template and () not in row.templates)


@lru_cache(maxsize=256)
def _annotated_places(row: Workload) -> tuple[tuple[Pattern, bool], ...]:
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
        location, value, sort = (*place, key), found[key], _KUEUE_SORTS.get(key, "required")
        problem = "" if is_template else _elsewhere(row, "Kueue reads it")
        if key not in _KUEUE_KEYS:
            near = closest(key, _KUEUE_KEYS)
            problem = f"is no annotation that Kueue knows{f': did you mean {near}?' if near else '.'}"
        elif key in _KUEUE_SORTS:
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
    return REQUIRED


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


POD_GROUP: Final = ("scheduling.run.ai", "PodGroup")
GROVE, KAI = "Grove", "KAI"
_NAMES = ("topologyName", "clusterTopologyName", "topologyProfile", "topology")
_FIELD_PLACES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("grove.io", "PodCliqueSet"): (
        *("spec.template", "spec.template.podCliqueScalingGroups[*]", "spec.template.cliques[*]"),
    ),
    ("nvidia.com", "DynamoGraphDeployment"): ("spec", "spec.components[*]", "spec.services.*"),
    POD_GROUP: ("spec", "spec.subGroups[*]"),
}
PLACES: Final[Mapping[tuple[str, str], tuple[Pattern, ...]]] = {
    kind: tuple(parse(f"{place}.topologyConstraint") for place in places) for kind, places in _FIELD_PLACES.items()
}
"""Where objects of a kind have their constraints, the one that the others inherit the topology from first."""

_LEVELS: Final[tuple[tuple[tuple[str, ...], Sort], ...]] = (
    (("packDomain",), "required"),
    (("pack", "required"), "required"),
    (("requiredTopologyLevel",), "required"),
    (("pack", "preferred"), "preferred"),
    (("preferredTopologyLevel",), "preferred"),
)


def _of_fields(obj: JsonObject | None, kind: tuple[str, str]) -> Iterator[Mention]:
    """What the constraints in an object name. kind: its group and kind."""
    patterns = PLACES.get(kind, ())
    reader = KAI if kind == POD_GROUP else GROVE
    inherited = _name(mapping({"": lookup(obj, tuple(map(str, patterns[0])))}, "")) if patterns else None
    for pattern in patterns:
        for place, constraint in locate(obj, pattern):
            if isinstance(constraint, dict):
                yield from _levels_of(place, constraint, reader, inherited)


def _levels_of(place: Location, constraint: JsonObject, reader: str, inherited: object) -> Iterator[Mention]:
    name = _name(constraint) or inherited
    for steps, sort in _LEVELS:
        value = lookup(constraint, steps)
        if value in (None, ""):
            continue
        at, problem = (*place, *steps), ""
        if not name:
            field = "topology" if reader == KAI else "topologyName"
            problem = f"is a level of no topology. Name one in {field}."
        yield Mention(at, value, reader, sort, name or "", problem)


def _name(constraint: JsonObject) -> object:
    return next((constraint[field] for field in _NAMES if constraint.get(field)), None)


TRAIN_JOB: Final = ("trainer.kubeflow.org", "TrainJob")
JOBSET: Final = "the Trainer's JobSet"
_PATCH = "spec.runtimePatches[*].trainingRuntimeSpec.template"
_JOB = f"{_PATCH}.spec.replicatedJobs[*].template"
_NOT_COPIED = (
    "has no effect: the Trainer does not copy it. Write it under "
    "spec.runtimePatches[].trainingRuntimeSpec.template.metadata.annotations, or spec.annotations before 2.2."
)
_COPIED: Final[tuple[Pattern, ...]] = tuple(
    map(
        parse,
        (
            *("spec.annotations", f"{_PATCH}.metadata.annotations", f"{_JOB}.metadata.annotations"),
            *(f"{_JOB}.spec.template.metadata.annotations", "spec.podTemplateOverrides[*].metadata.annotations"),
        ),
    )
)
"""The maps of annotations that are copied, those of the JobSet first."""
_TRAIN_JOB_READS: Final = frozenset({"spec.annotations", "spec.podTemplateOverrides", "spec.runtimePatches"})
_TRAIN_JOB_SORTS: Final[tuple[tuple[str, Sort], ...]] = ((REQUIRED, "required"), (PREFERRED, "preferred"))


def _of_trainjob(obj: JsonObject | None) -> Iterator[Mention]:
    """What the annotations of a TrainJob name. The topology holds for all of them that name none."""
    for place, found in locate(obj, ("metadata", "annotations")):
        for key in ANNOTATIONS if isinstance(found, dict) else ():
            if key in found:
                yield Mention((*place, key), found[key], JOBSET, "required", "", _NOT_COPIED)
    copied = [at for pattern in _COPIED for at in locate(obj, pattern) if isinstance(at[1], dict)]
    named = next((found[TOPOLOGY] for _, found in copied if TOPOLOGY in found), None)
    for place, found in copied:
        yield from _of_map(place, found, found.get(TOPOLOGY, named))


def _of_map(place: Location, found: JsonObject, topology: Any) -> Iterator[Mention]:
    for key, sort in _TRAIN_JOB_SORTS:
        if key in found:
            # The runtime may name the topology.
            yield Mention((*place, key), found[key], JOBSET, sort, topology)


READS: Final = frozenset({*_TRAIN_JOB_READS, *(render(place) for places in PLACES.values() for place in places)})
"""The paths that are read beside annotations."""


# Characters for a list. What is wrong and where must have room beside it in a warning.
_ROOM = 60


# A long value is shown so far; what to do must have room.
_VALUE = 60


class Judge:
    """Judges mentions. nodes: of the cluster; empty if they are not known."""

    def __init__(self, catalog: Catalog, nodes: Sequence[Node]) -> None:
        self._catalog = catalog
        self._nodes = nodes
        self._values: dict[str, frozenset[str]] = {}

    def problem(self, mention: Mention) -> str:
        """What is wrong with what is named, with what to do, to continue `VALUE …`; empty if it is right."""
        if mention.problem or mention.sort == "unconstrained":
            return mention.problem
        if not isinstance(mention.value, str) or not mention.value.strip():
            return "names nothing. Name a level."
        problem = self._of_key(mention) if mention.topology is None else self._of_level(mention)
        return problem or self._too_few(mention)

    def meaning(self, mention: Mention) -> str:
        """What is asked for, in a sentence, with the domains that there are."""
        key = self._key(mention)
        level = key.rpartition("/")[2] or str(mention.value)
        if mention.sort == "unconstrained":
            return "Kueue admits its Pods once there is room for all of them on Nodes, wherever these are"
        told = {
            "required": f"{mention.reader} keeps all Pods in one {level}, or lets them wait",
            "preferred": f"{mention.reader} packs the Pods into one {level} if there is room, else into few",
            "slice": f"{mention.reader} keeps each slice of the Pods in one {level}",
            "exclusive": f"{mention.reader} gives each group of Pods one {level}, which no other such group shares",
        }[mention.sort]
        values = self._carried(key)
        there = f"; Nodes are in {len(values)} of them: {_listed(values)}" if values else ""
        return f"{told}{f' ({key})' if key != level else ''}{there}"

    def _key(self, mention: Mention) -> str:
        """The key of the label that a mention is about; empty if its level is not known."""
        if mention.topology is None:
            return str(mention.value)
        topology = self._catalog.find(mention.topology) if isinstance(mention.topology, str) else None
        level = topology.find(str(mention.value)) if topology is not None else None
        return level.name if level is not None else ""

    def _of_key(self, mention: Mention) -> str:
        """What is wrong with the key of a node label."""
        key = mention.value.strip()
        own = [topology for topology in self._catalog.by_name.values() if mention.reader in topology.objects]
        if mention.reader == "Kueue" and own and not any(key == level.name for one in own for level in one.levels):
            levels = [level for topology in own for level in topology.levels]
            known = _listed(dict.fromkeys(level.name for level in levels))
            hint = "" if vocabulary.key(key) or self._carried(key) else self._hint(key, levels)
            return f"is no level of a Topology of Kueue. {hint or f'Levels are {known}.'}"
        if self._carried(key):
            return f"{why}. Name {instead}." if (why := vocabulary.no_place(key)) and (instead := _instead(key)) else ""
        hint = self._hint(key, [level for one in self._catalog.by_name.values() for level in one.levels])
        if why := vocabulary.no_place(key):
            return f"{why}. {hint or f'Name {_instead(key)}.'}"
        if "/" not in key and hint:
            return f"is no key of a node label. {hint}"
        if not self._nodes:
            near = vocabulary.near(key)
            return f"is no key that is known. Did you mean {near}?" if near else ""
        carried = [name for name in self._levels() if name != key]
        there = f"They carry {_listed(carried)}." if carried else "They carry no label of a topology."
        return f"is a label that no Node carries. {hint or there}"

    def _hint(self, key: str, levels: Iterable[Level]) -> str:
        """The key that was probably meant, of those that Nodes carry where they are known."""
        twin = vocabulary.twin(key)
        if twin and self._carried(twin):
            return f"Nodes carry its twin: write {twin}. "
        keys = list(dict.fromkeys(name for level in levels for name in level.keys if name != key and "/" in name))
        keys = [name for name in keys if self._carried(name)] or ([] if self._nodes else keys)
        near = _by_short(key, keys) or vocabulary.near(key)
        return f"Did you mean {near}? " if near and near != key else ""

    def _of_level(self, mention: Mention) -> str:
        """What is wrong with a level of a named topology."""
        name, names = mention.topology, list(self._catalog.by_name)
        if mention.reader == GROVE:
            names = [one.name for one in self._catalog.by_name.values() if GROVE in one.objects] or names
        topology = self._catalog.find(name) if isinstance(name, str) and name in names else None
        if topology is None:
            near = closest(str(name), names)
            hint = f"Did you mean {near}?" if near else f"Known are {_listed(names)}."
            return f"is a level of {quote(name)}, which is no topology. {hint}"
        return self._of_form(mention, topology) or self._without_nodes(mention, topology)

    def _of_form(self, mention: Mention, topology: Topology) -> str:
        """Why the reader of a mention does not know a level by this name."""
        value = mention.value
        if mention.reader == JOBSET:
            try:
                parse_placement(value, topology)
            except PlacementError as error:
                return f"{error.problem} {error.remedy.strip().rpartition(chr(10))[2]}"
            return ""
        aliases = [level.alias for level in topology.levels if level.alias]
        known = aliases if mention.reader == GROVE else [*aliases, *(level.name for level in topology.levels)]
        if value in known:
            return ""
        level = topology.find(value)
        written = "" if level is None else level.alias if mention.reader == GROVE else level.name
        near = written or _by_short(value, known)
        hint = f"Did you mean {near}?" if near else f"Its levels are {_listed(known)}."
        return f"is no level of topology {quote(topology.name)}. {hint}"

    def _without_nodes(self, mention: Mention, topology: Topology) -> str:
        level = topology.find(mention.value)
        if not self._nodes or level is None or any(map(self._carried, level.keys)):
            return ""
        others = [one.alias or one.name for one in topology.levels if any(map(self._carried, one.keys))]
        remedy = (
            f"Levels that they carry: {', '.join(others)}." if others else "Label the Nodes, or name another topology."
        )
        return f"is the label {' or '.join(level.keys)}, which no Node carries. {remedy}"

    def _too_few(self, mention: Mention) -> str:
        """Why there is no domain for each group of Pods."""
        values = self._carried(self._key(mention))
        if mention.sort != "exclusive" or not values or mention.groups is None or mention.groups <= len(values):
            return ""
        return (
            f"gives each of {mention.groups} groups of Pods a domain of its own, and there are {len(values)}: "
            f"{_listed(values)}. Ask for fewer, or name a nearer level."
        )

    def _carried(self, key: str) -> frozenset[str]:
        """The values that Nodes have under a key."""
        if key not in self._values:
            self._values[key] = frozenset(node.labels[key] for node in self._nodes if key in node.labels)
        return self._values[key]

    def _levels(self) -> Iterator[str]:
        """The keys of known levels that Nodes carry."""
        levels: Mapping[str, None] = dict.fromkeys(
            key for one in self._catalog.by_name.values() for level in one.levels for key in level.keys
        )
        return (key for key in levels if self._carried(key))


def warnings(
    request: AdmissionRequest, row: Workload | None, catalog: Catalog, nodes: Sequence[Node]
) -> Iterator[Violation]:
    """What is wrong with what an object newly names. Nothing is said to a controller, which would not read it."""
    obj, kind = request.object, request.kind.group_kind
    if request.sub_resource or obj is None or is_owned(obj) or is_being_deleted(obj):
        return
    named = {mention.location: mention for mention in mentions(obj, kind, row)}
    if not named:
        return
    before = {mention.location: mention for mention in mentions(request.old_object, kind, row)}
    judge, told = Judge(catalog, nodes), 0
    for location, mention in named.items():
        is_new = before.get(location) != mention
        if told < WARNING_COUNT and is_new and (problem := judge.problem(mention)):
            told += 1
            yield as_warning(f"{mention.path}: {quote(mention.value, _VALUE)} {problem.strip()}")


def _by_short(name: str, keys: Iterable[str]) -> str:
    """The key whose part behind the slash is closest to that of a name: prefixes are alike whatever is meant."""
    shorts: dict[str, str] = {}
    for key in keys:
        shorts.setdefault(key.rpartition("/")[2], key)
    return shorts.get(closest(name.rpartition("/")[2], shorts), "")


def _instead(key: str) -> str:
    """What to name in place of a label that is no place."""
    known = vocabulary.key(key)
    return known.instead if known is not None else ""


def _listed(texts: Iterable[str]) -> str:
    """As many of the texts as there is room for, and how many more there are."""
    ordered = sorted(texts, key=lambda text: (len(text), text)) if isinstance(texts, frozenset) else list(texts)
    shown = next((n for n in range(len(ordered), 1, -1) if len(", ".join(ordered[:n])) <= _ROOM), 1)
    more = f" and {len(ordered) - shown} more" if len(ordered) > shown else ""
    return f"{', '.join(ordered[:shown])}{more}"
