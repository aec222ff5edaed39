"""A workload's pod templates, each with the annotations that apply to it, and which of them it carries to its Pods.

Sources: KAI Scheduler's "Topology Aware Scheduling", whose pod grouper reads the annotations nearest to the Pods first;
Run:ai's documentation of topology-aware scheduling; CoreWeave's "Schedule Kubernetes Pods with the SUNK Pod Scheduler",
in which Slurm chooses the Node.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec import Struct

from policies.engine.request import JsonObject, mapping
from policies.glob import matches
from policies.objects.fieldpath import Location, Pattern, locate, lookup, render
from policies.objects.workload import STANDARD, Shape, Workload

TOPOLOGY: Final = "kai.scheduler/topology"
REQUIRED: Final = "kai.scheduler/topology-required-placement"
PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
ANNOTATIONS: Final = (TOPOLOGY, REQUIRED, PREFERRED)
PREFIXES: Final = ("kai.scheduler/", "kai-scheduler/")
WORDS: Final = ("topology", "placement")
"""A key with one of these prefixes and words is one of the annotations, or a misspelt one."""


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
    """Annotations, or None for each."""

    topology: Annotation | None = None
    required: Annotation | None = None
    preferred: Annotation | None = None

    @property
    def all(self) -> tuple[Annotation | None, ...]:
        """All annotations in the order of ANNOTATIONS."""
        return self.topology, self.required, self.preferred

    @property
    def anything(self) -> bool:
        """Whether there is any."""
        return any(annotation is not None for annotation in self.all)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the annotations, regardless of their locations."""
        return tuple(None if annotation is None else annotation.value for annotation in self.all)


NONE: Final = Annotations()


class Template(Struct, frozen=True):
    """A pod template.

    own: its annotations. above: for each key, the annotation on the nearest holder around it. is_meant: whether one is
    on the template itself or on the nearest job template around it, and so is meant for this template. reader: why its
    scheduler reads the annotations itself, else empty. value: the template as Kubernetes writes one. shape: how it is
    written.
    """

    location: Location
    value: JsonObject
    own: Annotations = NONE
    above: Annotations = NONE
    is_meant: bool = False
    reader: str = ""
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
    def metadata(self) -> JsonObject:
        """The metadata of its Pods."""
        return mapping(self.value, "metadata")

    @property
    def scheduler(self) -> str:
        """The name of its scheduler; empty for the default one."""
        return str(self.spec.get("schedulerName") or "")

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of its scheduling gates."""
        gates = self.spec.get("schedulingGates")
        listed = gates if isinstance(gates, list) else ()
        return tuple(str(gate.get("name")) for gate in listed if isinstance(gate, dict))

    def annotation(self, key: str) -> Any:
        """The value of one of its own annotations, whichever it is; None without it."""
        return mapping(self.metadata, "annotations").get(key)

    @property
    def said(self) -> Annotations:
        """The annotations that apply to it: for each key the nearest to its Pods."""
        return Annotations(*(own or above for own, above in zip(self.own.all, self.above.all, strict=True)))


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


def templates(obj: JsonObject | None, row: Workload, schedulers: Schedulers) -> tuple[Template, ...]:
    """The templates that are maps, with a map as spec or without one. The API server refuses others."""
    return () if obj is None else tuple(_templates(obj, row, schedulers))


class Values(Struct, frozen=True):
    """The values of one annotation in a template and on what is around it; None where it is not."""

    own: Any = None
    above: Any = None


def carried(now: Values, before: Values | None, *, copies: bool = True) -> Any:
    """The value that a template has after a write, so that its Pods carry it; None for none.

    What changed counts. before: None for a template that was not there. copies: whether a template that has none gets
    what is said around it.
    """
    if now.own is None:
        # A template that never had it stays as it is: an unrelated update must not roll its Pods.
        is_due = before is None or now.above != before.above or before.own is not None
        return now.above if copies and is_due else None
    follows = before is not None and before.above is not None and now.own == before.own == before.above
    return now.above if follows else now.own


def mentions(row: Workload, *objects: JsonObject | None) -> bool:
    """Whether objects of a kind have any of the annotations."""
    return any(
        not _KEYS.isdisjoint(mapping({"": found}, ""))
        for obj in objects
        for pattern in _places(row, "annotations")
        for _, found in locate(obj, pattern)
    )


def strays(row: Workload, obj: JsonObject | None) -> Iterator[Location]:
    """The locations of keys in an object that look like the annotations and are none: misspelt ones, and labels."""
    fields: tuple[tuple[Literal["annotations", "labels"], tuple[str, ...]], ...]
    fields = (("annotations", ANNOTATIONS), ("labels", ()))
    for field, known in fields:
        for pattern in _places(row, field):
            for place, found in locate(obj, pattern):
                if isinstance(found, dict):
                    yield from ((*place, key) for key in found if looks_meant(key) and key not in known)


def looks_meant(key: str) -> bool:
    """Whether a key is one of the annotations or looks like one."""
    return key.startswith(PREFIXES) and any(word in key for word in WORDS)


_KEYS = frozenset(ANNOTATIONS)


@lru_cache(maxsize=256)
def _places(row: Workload, field: Literal["annotations", "labels"]) -> tuple[Pattern, ...]:
    """The places of a kind's annotations or labels: its own, its jobs' and its templates'."""
    above = ((*holder, "metadata", field) for holder in ((), *row.jobs))
    own = row.shape.annotations if field == "annotations" else row.shape.labels
    return tuple(dict.fromkeys((*above, *((*template, *own) for template in row.templates))))


def _templates(obj: JsonObject, row: Workload, schedulers: Schedulers) -> Iterator[Template]:
    for pattern in row.templates:
        depths = sorted((len(job) for job in row.jobs if pattern[: len(job)] == job), reverse=True)
        for location, written in locate(obj, pattern):
            value = row.view(obj, written)
            if not isinstance(value, dict) or not isinstance(value.get("spec"), dict | None):
                continue
            around = [(location[:depth], lookup(obj, location[:depth])) for depth in depths]
            holders = [(place, job) for place, job in around if isinstance(job, dict)]
            own = _annotations(value, location, row.shape)
            nearest = _annotations(holders[0][1], holders[0][0], STANDARD) if holders else NONE
            holders += [((), obj)] if location else []
            above = NONE
            for place, holder in holders:
                farther = _annotations(holder, place, STANDARD)
                above = Annotations(*(a or b for a, b in zip(above.all, farther.all, strict=True)))
            is_meant = own.anything or nearest.anything
            yield Template(location, value, own, above, is_meant, schedulers.reader(obj, value), row.shape)


def _annotations(holder: JsonObject, place: Location, shape: Shape) -> Annotations:
    found = mapping(mapping(holder, "metadata"), "annotations")
    return Annotations(
        *(Annotation(found[key], place, key, shape.annotations) if key in found else None for key in ANNOTATIONS)
    )
