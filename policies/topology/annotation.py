"""A workload's pod templates, each with the annotations that apply to it: its own, its job's or the workload's.

Sources: KAI Scheduler's "Topology Aware Scheduling", whose pod grouper reads the annotations nearest to the Pods first;
Run:ai's documentation of topology-aware scheduling; CoreWeave's "Schedule Kubernetes Pods with the SUNK Pod Scheduler",
in which Slurm chooses the Node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from policies.engine.request import JsonObject, mapping
from policies.glob import matches
from policies.objects.fieldpath import Location, Pattern, locate, lookup, render
from policies.objects.shape import STANDARD, Shape
from policies.objects.workload import Workload
from policies.topology.affinity import NOTHING, RECORD, Record, RecordEntry, read_record

TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
ANNOTATIONS = (TOPOLOGY, REQUIRED, PREFERRED)
MENTIONED = frozenset((*ANNOTATIONS, RECORD))
"""The annotations that the rule looks for. It ignores objects without any of them, except for defaults."""


class Annotation(Struct, frozen=True):
    """An annotation's value, which is not a string if it is malformed, and its place.

    holder: the location of the object or template with the annotation. key: empty for a default of the configuration.
    within: where the holder has its annotations.
    """

    value: Any
    holder: Location
    key: str
    within: tuple[str, ...] = STANDARD.annotations

    @property
    def location(self) -> Location:
        """The location of the value; empty for a default."""
        return (*self.holder, *self.within, self.key) if self.key else ()

    @property
    def path(self) -> str:
        """The location of the value as messages show it."""
        return render(self.location) if self.key else "topology.default of the configuration"


class Annotations(Struct, frozen=True):
    """The annotations that apply to a template, or None for each."""

    topology: Annotation | None = None
    required: Annotation | None = None
    preferred: Annotation | None = None

    @property
    def all(self) -> tuple[Annotation | None, ...]:
        """All annotations in the order of ANNOTATIONS."""
        return self.topology, self.required, self.preferred

    @property
    def anything(self) -> bool:
        """Whether any annotation applies."""
        return any(annotation is not None for annotation in self.all)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the annotations, regardless of their locations."""
        return tuple(None if annotation is None else annotation.value for annotation in self.all)

    @property
    def places(self) -> tuple[Location | None, ...]:
        """The locations of the annotations."""
        return tuple(None if annotation is None else annotation.location for annotation in self.all)


class Template(Struct, frozen=True):
    """A pod template with its location and annotations.

    annotations: those that apply to it. is_meant: whether one of them is on the template itself or on the nearest job
    template around it, and so is meant for this template. reader: why its scheduler reads the annotations itself, else
    empty. entry: the recorded terms in its affinity. value: the template as Kubernetes writes one. shape: how it is
    written.
    """

    location: Location
    value: JsonObject
    annotations: Annotations = Annotations()
    is_meant: bool = False
    reader: str = ""
    entry: RecordEntry = NOTHING
    shape: Shape = STANDARD

    @property
    def path(self) -> str:
        """The location as Kubernetes writes field paths; empty for a Pod."""
        return render(self.location)

    def at(self, *steps: str) -> Location:
        """The location in the object of what is at these steps in `value`."""
        return (*self.location, *self.shape.place(steps))

    @property
    def spec(self) -> JsonObject:
        """The spec of its Pods."""
        return mapping(self.value, "spec")

    @property
    def affinity(self) -> Any:
        """The affinity of its Pods, or None."""
        return self.spec.get("affinity")

    @property
    def scheduler(self) -> str:
        """The name of its scheduler; empty for the default one."""
        return str(self.spec.get("schedulerName") or "")


class Schedulers(Struct, frozen=True):
    """Schedulers by their names (globs), and labels that assign a Pod to a scheduler.

    reading, labels: schedulers that read the annotations themselves. ignoring: those that ignore node affinity.
    """

    reading: tuple[str, ...] = ("kai-scheduler", "runai-scheduler")
    labels: tuple[str, ...] = ("kai.scheduler/queue", "runai/queue")
    ignoring: tuple[str, ...] = ("*-slurm-scheduler", "slurm-bridge-scheduler")

    def reader(self, workload: JsonObject, template: JsonObject) -> str:
        """Why a scheduler reads the annotations of a template itself; empty if none does."""
        name = str(mapping(template, "spec").get("schedulerName") or "")
        if matches(name, self.reading):
            return f"schedulerName {name}"
        for holder in (template, workload):
            labels = mapping(mapping(holder, "metadata"), "labels")
            for label in self.labels:
                if label in labels:
                    return f"label {label}"
        return ""

    def ignores_affinity(self, name: str) -> bool:
        """Whether the scheduler with this name ignores node affinity."""
        return matches(name, self.ignoring)


class Annotated(Struct, frozen=True):
    """An object's templates, and its record as text and decoded; None if it cannot be decoded."""

    templates: tuple[Template, ...] = ()
    text: Any = None
    record: Record | None = None


def annotated(obj: JsonObject | None, row: Workload, schedulers: Schedulers) -> Annotated:
    """The templates of an object with their annotations."""
    if obj is None:
        return Annotated()
    text = mapping(mapping(obj, "metadata"), "annotations").get(RECORD)
    record = read_record(text)
    return Annotated(tuple(_templates(obj, row, schedulers, record or {})), text, record)


def mentions(row: Workload, *objects: JsonObject | None) -> bool:
    """Whether objects of a kind have any of the annotations, or the record of an earlier translation."""
    return any(
        not MENTIONED.isdisjoint(mapping({"": found}, ""))
        for obj in objects
        for pattern in _places(row, "annotations")
        for _, found in locate(obj, pattern)
    )


@lru_cache(maxsize=256)
def _places(row: Workload, field: Literal["annotations", "labels"]) -> tuple[Pattern, ...]:
    """The places of a kind's annotations or labels: its own, its jobs' and its templates'."""
    above = ((*holder, "metadata", field) for holder in ((), *row.jobs))
    own = row.shape.annotations if field == "annotations" else row.shape.labels
    return tuple(dict.fromkeys((*above, *((*template, *own) for template in row.templates))))


def strays(row: Workload, obj: JsonObject | None) -> Iterator[Location]:
    """The locations of keys in an object that begin like the annotations and are none: misspelt ones, and labels."""
    fields: tuple[tuple[Literal["annotations", "labels"], tuple[str, ...]], ...]
    fields = (("annotations", ANNOTATIONS), ("labels", ()))
    for field, known in fields:
        for pattern in _places(row, field):
            for place, found in locate(obj, pattern):
                if isinstance(found, dict):
                    yield from ((*place, key) for key in found if key.startswith(TOPOLOGY) and key not in known)


def _templates(obj: JsonObject, row: Workload, schedulers: Schedulers, record: Record) -> Iterator[Template]:
    """The templates that are maps, with a map as spec or without one. The API server refuses others."""
    for pattern in row.templates:
        depths = sorted((len(job) for job in row.jobs if pattern[: len(job)] == job), reverse=True)
        for location, written in locate(obj, pattern):
            value = row.view(obj, written)
            if not isinstance(value, dict) or not isinstance(value.get("spec"), dict | None):
                continue
            jobs = ((location[:depth], lookup(obj, location[:depth])) for depth in depths)
            holders = [(location, value), *((place, job) for place, job in jobs if isinstance(job, dict))]
            if location:
                holders.append(((), obj))
            entry = record.get(render(location), NOTHING)
            annotations = _annotations(holders, entry, row.shape)
            own = [place for place, _ in holders[:2] if place or not location]
            yield Template(
                location, value, annotations,
                any(annotation is not None and annotation.holder in own for annotation in annotations.all),
                schedulers.reader(obj, value), entry, row.shape,
            )  # fmt: skip


def _annotations(holders: Sequence[tuple[Location, JsonObject]], entry: RecordEntry, shape: Shape) -> Annotations:
    """For each key, the annotation on the nearest holder, but for those that were written into the template.

    shape: of the first holder, which is the template.
    """
    template = holders[0][0]
    nearest = {
        key: Annotation(value, place, key, (shape if place == template else STANDARD).annotations)
        for place, holder in reversed(holders)
        for key, value in mapping(mapping(holder, "metadata"), "annotations").items()
        if key in ANNOTATIONS and not (place == template and (key, value) in entry.annotations)
    }
    return Annotations(*map(nearest.get, ANNOTATIONS))
