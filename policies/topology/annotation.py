"""The annotations, and those that hold for a pod template: its own, then its job's, then the workload's.

Source: KAI Scheduler's "Topology Aware Scheduling"; its pod grouper reads them off the workload, and off the templates
that are nearer to the Pods first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec import Struct

from policies.engine.request import JsonObject, mapping
from policies.objects.fieldpath import Location, Pattern, locate, lookup, render
from policies.objects.workload import Workload

TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
RECORD = "cks-admission.dev/topology"
ANNOTATIONS = (TOPOLOGY, REQUIRED, PREFERRED)
MENTIONED = frozenset((*ANNOTATIONS, RECORD))
"""The annotations without which nothing of an object is of interest."""


class Written(Struct, frozen=True):
    """An annotation's value, which is a string unless it is malformed, and the location of what carries it.

    key: empty for what the configuration says where no annotation does.
    """

    value: Any
    holder: Location
    key: str

    @property
    def location(self) -> Location:
        """Where the value stands."""
        return (*self.holder, "metadata", "annotations", self.key) if self.key else ()

    @property
    def path(self) -> str:
        """Where the value stands, for people."""
        return render(self.location) if self.key else "topology.default of the configuration"


class Asked(Struct, frozen=True):
    """What holds for a template; None where nothing does."""

    topology: Written | None = None
    required: Written | None = None
    preferred: Written | None = None

    @property
    def all(self) -> tuple[Written | None, ...]:
        """In the order of ANNOTATIONS."""
        return self.topology, self.required, self.preferred

    @property
    def anything(self) -> bool:
        """Whether a placement or a topology is asked for."""
        return not (self.topology is None and self.required is None and self.preferred is None)

    @property
    def values(self) -> tuple[Any, ...]:
        """What is asked for, wherever it stands."""
        return tuple(None if each is None else each.value for each in self.all)

    @property
    def places(self) -> tuple[Location | None, ...]:
        """Where what is asked for stands."""
        return tuple(None if each is None else each.location for each in self.all)

    def stands_on(self, places: Collection[Location]) -> bool:
        """Whether an annotation stands on one of some places."""
        return any(each is not None and each.key and each.holder in places for each in self.all)


class Template(Struct, frozen=True):
    """A pod template: where it is, it, and what else carries annotations for it, the nearest first."""

    location: Location
    value: JsonObject
    holders: tuple[tuple[Location, JsonObject], ...]

    @property
    def own_places(self) -> tuple[Location, ...]:
        """The template, and the job template that is around it alone: what stands there is meant for it."""
        return tuple(location for location, _ in self.holders[:2] if location or not self.location)

    @property
    def path(self) -> str:
        """Where it is, as Kubernetes writes it; empty for a Pod."""
        return render(self.location)


def templates(obj: JsonObject, row: Workload) -> Iterator[Template]:
    """The templates of an object that are maps; where the spec of one is none, the API server refuses the object."""
    for pattern in row.templates:
        jobs = [len(job) for job in row.jobs if pattern[: len(job)] == job]
        for location, value in locate(obj, pattern):
            if isinstance(value, dict) and isinstance(value.get("spec"), dict | None):
                yield Template(location, value, tuple(_holders(obj, location, value, jobs)))


def asked(template: Template) -> Asked:
    """What the annotations say that hold for a template."""
    return Asked(*(_written(template.holders, key) for key in ANNOTATIONS))


def mentions(obj: JsonObject | None, row: Workload) -> bool:
    """Whether any of the annotations, or the record of an earlier translation, stands anywhere."""
    if obj is None:
        return False
    if not MENTIONED.isdisjoint(annotations_of(obj)):
        return True
    return any(_mentioned(obj, pattern) for pattern in (*row.templates, *row.jobs) if pattern)


def annotations_of(holder: JsonObject) -> JsonObject:
    """The annotations of an object or a template."""
    return mapping(mapping(holder, "metadata"), "annotations")


def _mentioned(obj: JsonObject, pattern: Pattern) -> bool:
    return any(
        isinstance(value, dict) and not MENTIONED.isdisjoint(annotations_of(value)) for _, value in locate(obj, pattern)
    )


def _holders(
    obj: JsonObject, location: Location, template: JsonObject, jobs: Sequence[int]
) -> Iterator[tuple[Location, JsonObject]]:
    yield location, template
    for length in sorted(jobs, reverse=True):
        job = lookup(obj, location[:length])
        if isinstance(job, dict):
            yield location[:length], job
    if location:
        yield (), obj


def _written(holders: Sequence[tuple[Location, JsonObject]], key: str) -> Written | None:
    for location, holder in holders:
        found = annotations_of(holder)
        if key in found:
            return Written(found[key], location, key)
    return None
