"""What the annotations of a workload come to, template by template: levels and domains, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector
from policies.engine.request import AdmissionRequest, JsonObject, mapping
from policies.engine.violation import Violation
from policies.objects.accelerator import Accelerators
from policies.objects.workload import Workload
from policies.topology import wording
from policies.topology.annotation import Asked, Template, Written, asked, templates
from policies.topology.catalog import Catalog
from policies.topology.placement import Placement, PlacementError, parse
from policies.topology.scheduling import Schedulers
from policies.topology.topology import Topology

LOWEST = "lowest"
# Kinds that are made of several Pods that work together; a Job is where it has several Pods.
_DISTRIBUTED = frozenset(
    {
        ("batch.volcano.sh", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("sunk.coreweave.com", "NodeSet"),
        *(("kubeflow.org", f"{name}Job") for name in ("MPI", "PyTorch", "TF", "XGBoost", "Paddle", "JAX")),
        *(("ray.io", f"Ray{name}") for name in ("Cluster", "Job", "Service")),
        *(("trainer.kubeflow.org", f"{name}TrainingRuntime") for name in ("", "Cluster")),
    }
)


class Default(Struct, frozen=True):
    """What holds where no annotation says it, in some Namespaces.

    topology: that of placements that name none. preferred: the level that distributed workloads without annotations
    prefer, `lowest` for the last one of the topology, empty for none.
    """

    topology: str = ""
    preferred: str = LOWEST
    namespaces: LabelSelector = EVERYTHING


class Options(Struct, frozen=True):
    """What an operator may choose."""

    workloads: Mapping[tuple[str, str], Workload]
    schedulers: Schedulers = Schedulers()
    accelerators: Accelerators = Accelerators()
    default: Default = Default()
    not_more_specific: Literal["deny", "warn"] = "deny"
    unapplied: Literal["deny", "warn"] = "warn"
    pool_keys: tuple[str, ...] = ("compute.coreweave.com/node-pool", "kai.scheduler/node-pool", "runai/node-pool")


class Reading(Struct, frozen=True):
    """A template and what is asked for it.

    reader: why its scheduler reads the annotations itself, empty where it does not. left: why no affinity is added,
    empty where it is. violations: what is wrong with the annotations.
    """

    template: Template
    asked: Asked
    topology: Topology | None = None
    required: Placement | None = None
    preferred: Placement | None = None
    reader: str = ""
    left: str = ""
    violations: tuple[Violation, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether nothing is so wrong that the placements cannot be used."""
        return all(violation.verdict == "warn" for violation in self.violations)


class _Resolved(Struct, frozen=True):
    topology: Topology | None = None
    required: Placement | None = None
    preferred: Placement | None = None
    violations: tuple[Violation, ...] = ()


def read(
    request: AdmissionRequest, obj: JsonObject, row: Workload, catalog: Catalog, options: Options, facts: Facts
) -> list[Reading]:
    """A reading for each template of a request's object."""
    found = list(templates(obj, row))
    default = _default(request, obj, options, facts)
    wishes = [asked(template) for template in found]
    if default is not None and default.preferred and not any(wish.anything for wish in wishes):
        wishes = [Asked(Written(default.topology, (), ""), None, Written(default.preferred, (), ""))] * len(found)
    left = _left(request, row, found, wishes, options, facts)
    resolved: dict[Any, _Resolved] = {}  # most templates share what is asked of the workload
    readings = []
    for template, wish, why in zip(found, wishes, left, strict=True):
        key = wish.places
        if key not in resolved:
            resolved[key] = _resolve(wish, catalog, default, options)
        what = resolved[key]
        reader = options.schedulers.reader(obj, template.value) if wish.anything else ""
        violations = (*what.violations, *_for_reader(what, wish, reader))
        if wish.topology is not None and not wish.topology.key:
            # Nobody who writes a workload is to blame for the configuration.
            violations = tuple(map(wording.as_warning, violations))
        readings.append(
            Reading(
                template, wish, what.topology, what.required, what.preferred, reader,
                wording.read_by_scheduler(reader) if reader else why, violations,
            )
        )  # fmt: skip
    return readings


def is_distributed(obj: JsonObject, kind: tuple[str, str]) -> bool:
    """Whether a workload, of a group and kind, is made of several Pods that work together."""
    if kind != ("batch", "Job"):
        return kind in _DISTRIBUTED
    spec = mapping(obj, "spec")
    return any(isinstance(spec.get(field), int) and spec[field] > 1 for field in ("parallelism", "completions"))


def _default(request: AdmissionRequest, obj: JsonObject, options: Options, facts: Facts) -> Default | None:
    """The default for an object; without a preference where the object is no distributed workload."""
    chosen = options.default
    if not chosen.topology:
        return None
    if chosen.namespaces.requirements:
        namespace = request.scope_namespace
        if not namespace or not chosen.namespaces.matches(facts.namespace_labels(namespace)):
            return None
    return chosen if is_distributed(obj, request.kind.group_kind) else Default(chosen.topology, "")


def _left(
    request: AdmissionRequest,
    row: Workload,
    found: Sequence[Template],
    wishes: Sequence[Asked],
    options: Options,
    facts: Facts,
) -> list[str]:
    """Why each template gets no affinity, empty where it does."""
    if row.affinity == "never":
        return [wording.never_translated(row.kind)] * len(found)
    if len(found) < 2:
        return [""] * len(found)
    accelerated = [options.accelerators.requested(each.value, request.namespace, facts) for each in found]
    none = not any(accelerated)
    return [
        "" if none or one or wish.stands_on(each.own_places) else wording.NO_ACCELERATOR
        for each, one, wish in zip(found, accelerated, wishes, strict=True)
    ]


def _resolve(wish: Asked, catalog: Catalog, default: Default | None, options: Options) -> _Resolved:
    if not wish.anything:
        return _Resolved()
    malformed = [each for each in wish.all if each and not isinstance(each.value, str)]
    if malformed:
        return _Resolved(violations=tuple(wording.malformed(each) for each in malformed))
    placements = [each for each in (wish.required, wish.preferred) if each is not None]
    named = wish.topology or (Written(default.topology, (), "") if default else None)
    if named is None:
        return _Resolved(violations=tuple(wording.without_topology(each, catalog) for each in placements))
    topology = catalog.find(named.value.strip())
    if topology is None:
        return _Resolved(violations=(wording.unknown_topology(named, catalog),))
    found, violations = [], []
    for each in (wish.required, wish.preferred):
        placement = None
        if each is not None:
            try:
                placement = _parse(each, topology)
            except PlacementError as error:
                violations.append(wording.unreadable(each, error))
        found.append(placement)
    required, preferred = found
    if required and preferred and topology.position(preferred.level) <= topology.position(required.level):
        told = wording.not_more_specific(wish.preferred, preferred.level, required.level, topology)
        violations.append(wording.as_warning(told) if options.not_more_specific == "warn" else told)
    return _Resolved(topology, required, preferred, tuple(violations))


def _parse(written: Written, topology: Topology) -> Placement:
    """Raises PlacementError."""
    if not written.key and written.value == LOWEST:
        return parse(topology.levels[-1].name, topology)
    return parse(written.value, topology)


def _for_reader(what: _Resolved, wish: Asked, reader: str) -> Iterator[Violation]:
    """What is wrong only since the scheduler reads the annotations itself."""
    if not reader or what.topology is None:
        return
    for written, placement in ((wish.required, what.required), (wish.preferred, what.preferred)):
        if written is None or placement is None:
            continue
        if placement.is_named:
            yield wording.domain_for_reader(written, reader, what.topology, placement)
        elif placement.level in what.topology.unions:
            yield wording.union_for_reader(written, reader, what.topology, placement.level)
