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
from typing import Any, Final, Literal

from msgspec import Struct

from policies import vocabulary
from policies.engine.facts import Node
from policies.engine.request import AdmissionRequest, JsonObject, as_map, is_being_deleted, is_owned, mapping
from policies.engine.violation import WARNING_COUNT, Violation, quote
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import Location, Pattern, locate, lookup, parse, render
from policies.objects.workload import Workload
from policies.topology.placement import ANNOTATIONS, PREFERRED, REQUIRED, TOPOLOGY, PlacementError
from policies.topology.placement import parse as parse_placement
from policies.topology.template import as_warning, places
from policies.topology.topology import Catalog, Level, Topology

Sort = Literal["required", "preferred", "slice", "unconstrained", "exclusive"]
"""What is asked of the domains: all Pods in one, as near together as can be, a part of the Pods in one, room on any
Nodes, or one for each group of Pods that no other such group shares."""

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

POD_GROUP: Final = ("scheduling.run.ai", "PodGroup")
_GROVE, _KAI = "Grove", "KAI"
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

_NAMES = ("topologyName", "clusterTopologyName", "topologyProfile", "topology")
_LEVELS: Final[tuple[tuple[tuple[str, ...], Sort], ...]] = (
    (("packDomain",), "required"),
    (("pack", "required"), "required"),
    (("requiredTopologyLevel",), "required"),
    (("pack", "preferred"), "preferred"),
    (("preferredTopologyLevel",), "preferred"),
)

_TRAIN_JOB: Final = ("trainer.kubeflow.org", "TrainJob")
_TRAINER: Final = "the Trainer's JobSet"
_PATCH = "spec.runtimePatches[*].trainingRuntimeSpec.template"
_JOB = f"{_PATCH}.spec.replicatedJobs[*].template"
_NOT_COPIED = (
    "has no effect: the Trainer does not copy it. Write it under "
    "spec.runtimePatches[].trainingRuntimeSpec.template.metadata.annotations, or spec.annotations before 2.2."
)
# The maps of annotations that the Trainer copies, those of the JobSet first.
_COPIED: Final[tuple[Pattern, ...]] = tuple(
    map(
        parse,
        (
            *("spec.annotations", f"{_PATCH}.metadata.annotations", f"{_JOB}.metadata.annotations"),
            *(f"{_JOB}.spec.template.metadata.annotations", "spec.podTemplateOverrides[*].metadata.annotations"),
        ),
    )
)
READS: Final = frozenset(
    {
        *("spec.annotations", "spec.podTemplateOverrides", "spec.runtimePatches"),
        *(render(place) for places in PLACES.values() for place in places),
    }
)
"""The paths that are read beside annotations."""

# Characters for a list, and for a value: what is wrong, where, and what to do must have room beside it in a warning.
_ROOM = 60


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
        pods = [(*template, *row.shape.annotations) for template in row.templates]
        for pattern in places(row, "annotations"):
            for place, held in locate(obj, pattern):
                for key in held if isinstance(held, dict) else ():
                    if key.startswith("kueue."):
                        yield from _of_kueue(obj, row, place, held, key, is_template=pattern in pods)
                    elif EXCLUSIVE in key:
                        yield from _exclusive(obj, row, (*place, key), held[key], is_template=pattern in pods)
    patterns = PLACES.get(kind, ())
    inherited = _name(as_map(lookup(obj, tuple(map(str, patterns[0]))))) if patterns else None
    reader, field = (_KAI, "topology") if kind == POD_GROUP else (_GROVE, "topologyName")
    for place, constraint in (at for pattern in patterns for at in locate(obj, pattern)):
        for steps, sort in _LEVELS if isinstance(constraint, dict) else ():
            if (value := lookup(constraint, steps)) not in (None, ""):
                name = _name(constraint) or inherited or ""
                problem = "" if name else f"is a level of no topology. Name one in {field}."
                yield Mention((*place, *steps), value, reader, sort, name, problem)
    if kind == _TRAIN_JOB:
        yield from _of_trainjob(obj)


def is_mentioned(row: Workload, *objects: JsonObject | None) -> bool:
    """Whether a key in objects may be an annotation of anybody's, or a misspelt one. Nearly all objects have none."""
    if row.group_kind in PLACES or row.group_kind == _TRAIN_JOB:
        return True
    for obj in objects:
        for pattern in (*places(row, "annotations"), *places(row, "labels")) if obj is not None else ():
            for _, found in locate(obj, pattern):
                keys = "\n".join(found) if isinstance(found, dict) else ""  # one text takes less time than each key
                if "scheduler/" in keys or "kueue." in keys or EXCLUSIVE in keys:
                    return True
    return False


def _of_kueue(
    obj: JsonObject, row: Workload, place: Location, annotations: JsonObject, key: str, *, is_template: bool
) -> Iterator[Mention]:
    location, value, sort = (*place, key), annotations[key], _KUEUE_SORTS.get(key, "required")
    problem = ""
    if key == QUEUE:
        problem = f"has no effect: {QUEUE} is a label. Write it under metadata.labels."
    elif not key.startswith(KUEUE):
        return
    elif key not in _KUEUE_KEYS:
        near = closest(key, _KUEUE_KEYS)
        problem = f"is no annotation that Kueue knows{f': did you mean {near}?' if near else '.'}"
    elif not is_template:
        where = " or ".join(dict.fromkeys(render((*one, *row.shape.annotations)) for one in row.templates))
        problem = f"has no effect here: Kueue reads it at {where}. Move it there."
    elif key in _KUEUE_SORTS:
        holders: Iterable[Pattern] = (("metadata", "labels"), *((*t, *row.shape.labels) for t in row.templates))
        is_queued = any(QUEUE in as_map(found) for pattern in holders for _, found in locate(obj, pattern))
        problem = _of_values(key, annotations) or ("" if is_queued else _NOT_MANAGED)
    else:
        return
    if key != _LAYERS or problem:
        yield Mention(location, value, "Kueue", sort, problem=problem)
        return
    # The levels in a JSON list of constraints, farthest first.
    try:
        layers = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        layers = None
    levels = [as_map(layer).get("topology") for layer in layers] if isinstance(layers, list) else []
    if levels and all(isinstance(level, str) for level in levels):
        yield from (Mention(location, level, "Kueue", "slice") for level in levels)
    else:
        problem = 'is no list of slices. Write JSON, such as [{"topology": "example.org/rack", "size": 4}].'
        yield Mention(location, value, "Kueue", "slice", problem=problem)


def _of_values(key: str, annotations: JsonObject) -> str:
    """Why Kueue cannot use an annotation of a template beside the others."""
    others = [one for one in _OF_ALL if one in annotations and one != key]
    if key in _OF_ALL and others and key != min(key, *others):
        return f"excludes {others[0]}: Kueue takes one of them. Remove one."
    if key.endswith("unconstrained-topology") and annotations[key] != "true":
        return 'asks for nothing that Kueue can do: only "true" has a meaning. Remove the annotation.'
    if key == _SLICE and _SIZE not in annotations:
        return f"says nothing about how many Pods a slice has. Add {_SIZE}."
    return ""


def _exclusive(
    obj: JsonObject, row: Workload, location: Location, value: Any, *, is_template: bool
) -> Iterator[Mention]:
    key, place, problem, spec = str(location[-1]), location[:-1], "", mapping(obj, "spec")
    if key in (_JOBSET, *_LWS):
        kind = "JobSet" if key == _JOBSET else "LeaderWorkerSet"
        of_pods = is_template and () not in row.templates
        if row.kind != kind:
            problem = f"has no effect on a {row.kind}: it is for a {kind}. Require the level by {REQUIRED}."
        elif of_pods or (place != ("metadata", "annotations") and kind == "LeaderWorkerSet"):
            holders = "of the JobSet or of a Job's template" if kind == "JobSet" else f"of the {kind}"
            problem = f"has no effect here. Write it in the metadata {holders}."
        # The groups of Pods that get a domain each: the Jobs of a JobSet, or the replicas of a LeaderWorkerSet.
        counts: list[Any] = [spec.get("replicas", 1)]
        if row.kind != "LeaderWorkerSet":
            jobs, own = spec.get("replicatedJobs"), place[2:3]
            jobs = [job for n, job in enumerate(jobs) if own in ((), (n,))] if isinstance(jobs, list) else []
            counts = [job.get("replicas", 1) for job in jobs if isinstance(job, dict)]
        groups = sum(counts) if all(isinstance(count, int) for count in counts) else None
        yield Mention(location, value, kind, "exclusive", problem=problem, groups=groups)
    elif (near := closest(key, (_JOBSET, *_LWS))) and "sigs.k8s.io/" in key and not key.startswith(_JOBSET):
        # JobSet has further annotations that begin like this one.
        yield Mention(location, value, row.kind, "exclusive", problem=f"has no effect: did you mean {near}?")


def _name(constraint: JsonObject) -> object:
    return next((constraint[field] for field in _NAMES if constraint.get(field)), None)


def _of_trainjob(obj: JsonObject) -> Iterator[Mention]:
    """What the annotations of a TrainJob name. The topology holds for all of them that name none."""
    own = mapping(mapping(obj, "metadata"), "annotations")
    for key in ANNOTATIONS:
        if key in own:
            yield Mention(("metadata", "annotations", key), own[key], _TRAINER, "required", "", _NOT_COPIED)
    copied = [at for pattern in _COPIED for at in locate(obj, pattern) if isinstance(at[1], dict)]
    named = next((held[TOPOLOGY] for _, held in copied if TOPOLOGY in held), None)
    sorts: tuple[tuple[str, Sort], ...] = ((REQUIRED, "required"), (PREFERRED, "preferred"))
    for place, held in copied:
        for key, sort in sorts:
            if key in held:
                # The runtime may name the topology.
                topology = held.get(TOPOLOGY, named)
                yield Mention((*place, key), held[key], _TRAINER, sort, topology)


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
        if problem := self._of_key(mention) if mention.topology is None else self._of_level(mention):
            return problem
        values = self._carried(self._key(mention))
        if mention.sort != "exclusive" or not values or mention.groups is None or mention.groups <= len(values):
            return ""
        return (
            f"gives each of {mention.groups} groups of Pods a domain of its own, and there are {len(values)}: "
            f"{_listed(values)}. Ask for fewer, or name a nearer level."
        )

    def meaning(self, mention: Mention) -> str:
        """What is asked for, in a sentence, with the domains that there are."""
        key = self._key(mention)
        level = key.rpartition("/")[2] or str(mention.value)
        if mention.sort == "unconstrained":
            return "Kueue admits its Pods once there is room for all of them on Nodes, wherever these are"
        text = {
            "required": f"{mention.reader} keeps all Pods in one {level}, or lets them wait",
            "preferred": f"{mention.reader} packs the Pods into one {level} if there is room, else into few",
            "slice": f"{mention.reader} keeps each slice of the Pods in one {level}",
            "exclusive": f"{mention.reader} gives each group of Pods one {level}, which no other such group shares",
        }[mention.sort]
        values = self._carried(key)
        there = f"; Nodes are in {len(values)} of them: {_listed(values)}" if values else ""
        return f"{text}{f' ({key})' if key != level else ''}{there}"

    def _key(self, mention: Mention) -> str:
        if mention.topology is None:
            return str(mention.value)
        topology = self._catalog.find(mention.topology) if isinstance(mention.topology, str) else None
        level = topology.find(str(mention.value)) if topology is not None else None
        return level.name if level is not None else ""

    def _of_key(self, mention: Mention) -> str:
        key, topologies = mention.value.strip(), self._catalog.by_name.values()
        own = [level for one in topologies if mention.reader in one.objects for level in one.levels]
        if mention.reader == "Kueue" and own and all(key != level.name for level in own):
            hint = "" if vocabulary.key(key) or self._carried(key) else self._hint(key, own)
            known = _listed(dict.fromkeys(level.name for level in own))
            return f"is no level of a Topology of Kueue. {hint or f'Levels are {known}.'}"
        why, known_key = vocabulary.no_place(key), vocabulary.key(key)
        instead = known_key.instead if known_key is not None else ""
        if self._carried(key):
            return f"{why}. Name {instead}." if why and instead else ""
        hint = self._hint(key, [level for one in topologies for level in one.levels])
        if why:
            return f"{why}. {hint or f'Name {instead}.'}"
        if "/" not in key and hint:
            return f"is no key of a node label. {hint}"
        if not self._nodes:
            near = vocabulary.near(key)
            return f"is no known key. Did you mean {near}?" if near else ""
        keys = dict.fromkeys(name for one in topologies for level in one.levels for name in level.keys)
        carried = [name for name in keys if name != key and self._carried(name)]
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
        name, names = mention.topology, list(self._catalog.by_name)
        if mention.reader == _GROVE:
            names = [one.name for one in self._catalog.by_name.values() if _GROVE in one.objects] or names
        topology = self._catalog.find(name) if isinstance(name, str) and name in names else None
        if topology is None:
            near = closest(str(name), names)
            hint = f"Did you mean {near}?" if near else f"Known are {_listed(names)}."
            return f"is a level of {quote(name)}, which is no topology. {hint}"
        level = topology.find(mention.value)
        if problem := _of_form(mention, topology, level):
            return problem
        if not self._nodes or level is None or any(map(self._carried, level.keys)):
            return ""
        others = [one.alias or one.name for one in topology.levels if any(map(self._carried, one.keys))]
        remedy = (
            f"Levels that they carry: {', '.join(others)}." if others else "Label the Nodes, or name another topology."
        )
        return f"is the label {' or '.join(level.keys)}, which no Node carries. {remedy}"

    def _carried(self, key: str) -> frozenset[str]:
        if key not in self._values:
            self._values[key] = frozenset(node.labels[key] for node in self._nodes if key in node.labels)
        return self._values[key]


def warnings(
    request: AdmissionRequest, row: Workload | None, catalog: Catalog, nodes: Sequence[Node]
) -> Iterator[Violation]:
    """What is wrong with what an object newly names. Nothing is said to a controller, which would not read it."""
    obj, kind = request.object, request.kind.group_kind
    if request.sub_resource or obj is None or is_owned(obj) or is_being_deleted(obj):
        return
    named = {mention.location: mention for mention in mentions(obj, kind, row)}
    before = {mention.location: mention for mention in mentions(request.old_object, kind, row)} if named else {}
    judge, count = Judge(catalog, nodes), 0
    for location, mention in named.items():
        if count < WARNING_COUNT and before.get(location) != mention and (problem := judge.problem(mention)):
            count += 1
            yield as_warning(f"{mention.path}: {quote(mention.value, _ROOM)} {problem.strip()}")


def _of_form(mention: Mention, topology: Topology, level: Level | None) -> str:
    value, is_grove = mention.value, mention.reader == _GROVE
    if mention.reader == _TRAINER:
        try:
            parse_placement(value, topology)
        except PlacementError as error:
            return f"{error.problem} {error.remedy.strip().rpartition(chr(10))[2]}"
        return ""
    aliases = [one.alias for one in topology.levels if one.alias]
    known = aliases if is_grove else [*aliases, *(one.name for one in topology.levels)]
    if value in known:
        return ""
    written = "" if level is None else level.alias if is_grove else level.name
    near = written or _by_short(value, known)
    hint = f"Did you mean {near}?" if near else f"Its levels are {_listed(known)}."
    return f"is no level of topology {quote(topology.name)}. {hint}"


def _by_short(name: str, keys: Iterable[str]) -> str:
    """The key whose part behind the slash is closest to that of a name: prefixes are alike whatever is meant."""
    shorts: dict[str, str] = {}
    for key in keys:
        shorts.setdefault(key.rpartition("/")[2], key)
    return shorts.get(closest(name.rpartition("/")[2], shorts), "")


def _listed(texts: Iterable[str]) -> str:
    ordered = sorted(texts, key=lambda text: (len(text), text)) if isinstance(texts, frozenset) else list(texts)
    shown = next((n for n in range(len(ordered), 1, -1) if len(", ".join(ordered[:n])) <= _ROOM), 1)
    more = f" and {len(ordered) - shown} more" if len(ordered) > shown else ""
    return f"{', '.join(ordered[:shown])}{more}"
