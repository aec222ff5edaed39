"""The constraints of a workload's templates: the levels and domains that their annotations name, or violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_mirror_pod, mapping
from policies.engine.violation import Violation, quote
from policies.glob import matches
from policies.nvlink import NVL_DOMAIN
from policies.objects.workload import Workload
from policies.podspec import Accelerators
from policies.topology import refusal
from policies.topology.annotation import (
    NONE,
    Annotation,
    Annotations,
    Schedulers,
    Template,
    Values,
    carried,
    mentions,
    templates,
)
from policies.topology.catalog import Catalog
from policies.topology.gang.membership import owner
from policies.topology.gate import GATE
from policies.topology.placement import Placement, PlacementError, parse
from policies.topology.term import Term, required_terms
from policies.topology.topology import Topology

LOWEST: Final = "lowest"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""The label of a workload that Kueue manages."""

NO_ACCELERATOR: Final = "it requests no accelerator, as other templates of the workload do"

Way = Literal["kueue", "workload", "gate", "affinity"]
"""Who keeps the Pods of a gang together: Kueue; Kubernetes' own workload scheduling; the placer, which opens their
gates; Pod affinity of the gang to itself."""

USUAL: Final[tuple[Way, ...]] = ("kueue", "workload", "gate", "affinity")

# Kinds whose Pods work together. A Job belongs to them if it has several Pods.
_DISTRIBUTED = frozenset(
    {
        ("batch.volcano.sh", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("sunk.coreweave.com", "NodeSet"),
        ("grove.io", "PodCliqueSet"),
        *(("kubeflow.org", f"{name}Job") for name in ("MPI", "PyTorch", "TF", "XGBoost", "Paddle", "JAX")),
        *(("ray.io", f"Ray{name}") for name in ("Cluster", "Job", "Service")),
        *(("trainer.kubeflow.org", f"{name}TrainingRuntime") for name in ("", "Cluster")),
    }
)
_SHOWN = 60
_NOT_TOGETHER: Final = frozenset({("apps", "DaemonSet")})


class Permission(Struct, frozen=True):
    """The ways for placements in some topologies (globs of names) and Namespaces."""

    topologies: tuple[str, ...] = ("*",)
    namespaces: LabelSelector = EVERYTHING
    ways: tuple[Way, ...] = USUAL


class Default(Struct, frozen=True):
    """The default placement, for the selected Namespaces.

    topology: for placements that name none. preferred: the level that distributed workloads without annotations prefer;
    `lowest` for the last one above a single Node, empty for none.
    """

    topology: str = ""
    preferred: str = LOWEST
    namespaces: LabelSelector = EVERYTHING


class Options(Struct, frozen=True):
    """The options that an operator can set.

    unapplied: what becomes of a Pod or template that lacks what the mutation adds. placement: the ways that are
    permitted; the first permission for a topology and Namespace counts. autoscaling: whether Nodes may come that are
    not there yet. schedules: whether Kubernetes' own scheduling of workloads may be made use of. topograph: prefixes of
    the keys that Topograph was told to write. clustered: whether there is a cluster, and so a placer.
    """

    workloads: Mapping[tuple[str, str], Workload]
    schedulers: Schedulers = Schedulers()
    accelerators: Accelerators = Accelerators()
    default: Default = Default()
    not_more_specific: Literal["deny", "warn"] = "deny"
    unapplied: Literal["deny", "warn"] = "warn"
    pool_keys: tuple[str, ...] = ("compute.coreweave.com/node-pool", "kai.scheduler/node-pool", "runai/node-pool")
    placement: tuple[Permission, ...] = ()
    autoscaling: Literal["on", "off"] = "on"
    schedules: bool = False
    topograph: tuple[str, ...] = ()
    clustered: bool = True


class Constraint(Struct, frozen=True):
    """A template with its placement after the request.

    annotations: those that apply to it, with the default. before: the same before an update. carries: the values of the
    three annotations that it is to have itself. earlier: the template before an update. obstacle: why nothing is
    written for it, else empty. terms: of which a Node must meet one: named domains, and what the topology requires.
    """

    template: Template
    annotations: Annotations = NONE
    before: Annotations = NONE
    carries: tuple[Any, ...] = (None, None, None)
    earlier: Template | None = None
    topology: Topology | None = None
    required: Placement | None = None
    preferred: Placement | None = None
    obstacle: str = ""
    violations: tuple[Violation, ...] = ()
    terms: Sequence[Term] = ()

    @property
    def reader(self) -> str:
        """Why its scheduler reads the annotations itself, else empty."""
        return self.template.reader if self.annotations.anything else ""

    @property
    def placements(self) -> Iterator[tuple[Annotation, Placement]]:
        """The valid placements, each with its annotation. The required one comes first."""
        annotations = self.annotations
        for annotation, placement in ((annotations.required, self.required), (annotations.preferred, self.preferred)):
            if annotation is not None and placement is not None:
                yield annotation, placement

    @property
    def placement(self) -> Placement | None:
        """The placement that decides where the gang starts: the required one, else the preferred one."""
        return self.required or self.preferred

    @property
    def asked(self) -> str:
        """What is asked for: `required "rack"`."""
        kind = "required" if self.required is not None else "preferred"
        called = self.placement.called(self.topology) if self.topology and self.placement else ""
        # The end of a domain tells it from others.
        return f"{kind} {quote(called if len(called) <= _SHOWN else f'…{called[-_SHOWN:]}')}"

    @property
    def is_default(self) -> bool:
        """Whether the placements are the default of the configuration."""
        return not any(annotation is not None and annotation.key for annotation in self.annotations.all)

    @property
    def is_usable(self) -> bool:
        """Whether the placements can be used: all of them are known, and all violations are warnings."""
        asked = zip(self.annotations.all, (self.topology, self.required, self.preferred), strict=True)
        is_known = all(annotation is None or found is not None for annotation, found in asked)
        return is_known and all(violation.verdict == "warn" for violation in self.violations)

    @property
    def is_placed(self) -> bool:
        """Whether its Pods are to be kept together by one of the ways."""
        return self.topology is not None and self.placement is not None and self.is_usable and not self.obstacle

    @property
    def is_new(self) -> bool:
        """Whether the placement or the scheduler has changed."""
        template, earlier = self.template, self.earlier
        if earlier is None or self.annotations.values != self.before.values:
            return True
        return self.annotations.anything and (earlier.scheduler, earlier.reader) != (
            template.scheduler,
            template.reader,
        )


class Submission(Struct, frozen=True):
    """The constraints of a request. may_change: whether this request may change the metadata of templates.

    is_created: whether it creates the object. queued: whether Kueue manages the object.
    """

    constraints: tuple[Constraint, ...]
    may_change: bool
    is_created: bool
    queued: bool = False


def read(request: AdmissionRequest, catalog: Catalog, options: Options, facts: Facts) -> Submission | None:
    """The submission of a request; None if the rule does not apply to it."""
    obj, row = request.object, options.workloads.get(request.kind.group_kind)
    if obj is None or row is None or request.sub_resource:
        return None
    default = options.default
    prefers = bool(default.topology and default.preferred) and _is_distributed(obj, row)
    if not (prefers or mentions(row, obj, request.old_object) or _is_gated(obj, row)):
        return None
    if is_being_deleted(obj) or is_mirror_pod(obj) or _is_left(request, obj, row, options):
        return None
    old = request.old_object if request.operation == "UPDATE" else None
    may_change = old is None or row.changes == "always"
    if row.changes == "suspended":
        may_change = may_change or mapping(old, "spec").get("suspend") is True
    queued = bool(mapping(mapping(obj, "metadata"), "labels").get(QUEUE))
    chosen = _default(request, obj, row, catalog, options, facts)
    found, former = (templates(one, row, options.schedulers) for one in (obj, old))
    now, earlier = _defaulted(found, chosen, former), _defaulted(former, chosen)
    at = {template.location: template for template in earlier}
    shared: dict[Any, Constraint] = {}  # most templates share the annotations of the workload
    constraints = []
    for template, obstacle in zip(now, _obstacles(request.namespace, row, now, options, facts), strict=True):
        bare = _bare(template, at.get(template.location), obstacle, queued=queued)
        # Where they stand is in the words about them, and a scheduler that reads them itself takes fewer forms.
        key = (*((a and (a.location, str(a.value))) for a in bare.annotations.all), bare.reader)
        if key not in shared:
            shared[key] = _judged(bare, catalog, options)
        constraints.append(
            replace(
                shared[key], template=template, earlier=bare.earlier, before=bare.before, carries=bare.carries,
                obstacle=bare.obstacle,
            )
        )  # fmt: skip
    return Submission(tuple(constraints), may_change, old is None, queued)


def permitted(constraint: Constraint, request: AdmissionRequest, options: Options, facts: Facts) -> tuple[Way, ...]:
    """The ways of the first permission for a constraint's topology and Namespace; the usual ones if there is none."""
    name = "" if constraint.topology is None else constraint.topology.name
    namespace = request.scope_namespace
    labels: Callable[[], Mapping[str, str]] = partial(facts.namespace_labels, namespace) if namespace else dict
    for permission in options.placement:
        selector = permission.namespaces
        if matches(name, permission.topologies) and (not selector.requirements or selector.matches(labels())):
            return permission.ways
    return USUAL


def previous(constraint: Constraint, catalog: Catalog, options: Options) -> Constraint | None:
    """What the placement of a template was before an update; None for a new one."""
    earlier = constraint.earlier
    return None if earlier is None else _judged(Constraint(earlier, constraint.before), catalog, options)


def is_same(constraint: Constraint, before: Constraint) -> bool:
    """Whether two constraints mean the same placements for the same scheduler."""
    asked, was_asked = (
        (one.topology, one.required, one.preferred, one.template.scheduler, one.template.reader)
        for one in (constraint, before)
    )
    return constraint.is_usable and before.is_usable and asked == was_asked and constraint.topology is not None


def _is_gated(obj: JsonObject, row: Workload) -> bool:
    """Whether a template has our gate, which is no business of people's."""
    for _, template in row.pods(obj):
        gates = mapping(template, "spec").get("schedulingGates")
        if isinstance(gates, list) and any(isinstance(gate, dict) and gate.get("name") == GATE for gate in gates):
            return True
    return False


def _is_left(request: AdmissionRequest, obj: JsonObject, row: Workload, options: Options) -> bool:
    """Whether an object is left to its controller, which would put back what it wants.

    A controller that is not in the table of kinds may know nothing of the annotations, as that of a TrainJob; then the
    object counts when it is created.
    """
    controller = owner(obj)
    if row.kind == "Pod" or controller is None:
        return False
    return (controller.group, controller.kind) in options.workloads or request.operation != "CREATE"


def _is_distributed(obj: JsonObject, row: Workload) -> bool:
    """Whether a workload has several Pods that work together."""
    if row.group_kind != ("batch", "Job"):
        return row.group_kind in _DISTRIBUTED
    spec = mapping(obj, "spec")
    return any(isinstance(spec.get(field), int) and spec[field] > 1 for field in ("parallelism", "completions"))


def _default(
    request: AdmissionRequest, obj: JsonObject, row: Workload, catalog: Catalog, options: Options, facts: Facts
) -> Annotations:
    """The annotations that hold where there are none; only the topology for an object that is not distributed."""
    default = options.default
    if not default.topology:
        return NONE
    if default.namespaces.requirements:
        namespace = request.scope_namespace
        if not namespace or not default.namespaces.matches(facts.namespace_labels(namespace)):
            return NONE
    topology = catalog.find(default.topology)
    level = default.preferred
    if level == LOWEST and topology is not None:
        level = topology.called(topology.lowest)
    preferred = Annotation(level, (), "") if level and _is_distributed(obj, row) else None
    return Annotations(Annotation(default.topology, (), ""), None, preferred)


def _defaulted(
    found: tuple[Template, ...], default: Annotations, former: tuple[Template, ...] = ()
) -> tuple[Template, ...]:
    """The templates with the default as what is said around them, where nothing else is. former: before an update."""
    if default.topology is None:
        return found
    at = {template.location: template for template in former}
    left = [_carried(template, at.get(template.location), copies=False) for template in found]
    asks = any(
        template.above.anything or (any(values) and values != default.values)
        for template, values in zip(found, left, strict=True)
    )
    made = []
    for template in found:
        above, said = template.above, template.said
        if not asks and default.preferred is not None:
            above = default
        elif said.topology is None and said.anything:
            above = replace(above, topology=default.topology)
        elif above.topology is None and said.topology is not None and said.topology.value == default.topology.value:
            # It was written for a placement that names none.
            above = replace(above, topology=default.topology) if above.anything else above
        made.append(replace(template, above=above))
    return tuple(made)


def _obstacles(
    namespace: str, row: Workload, found: Sequence[Template], options: Options, facts: Facts
) -> Iterator[str]:
    """For each template, why nothing is written for it; empty if something is."""
    accelerated = [True] * len(found)
    if len(found) > 1:
        asking = [options.accelerators.requested(template.value, namespace, facts) for template in found]
        accelerated = asking if any(asking) else accelerated
    for template, is_accelerated in zip(found, accelerated, strict=True):
        if row.changes == "never" and not template.own.anything:
            yield f"nothing is written into a {row.kind}; write the annotations into its template"
        elif row.group_kind in _NOT_TOGETHER:
            yield f"a {row.kind} has a Pod on each Node, which belong to no gang"
        elif template.reader:
            yield f"its scheduler reads the annotations itself ({template.reader})"
        elif options.schedulers.ignores_affinity(template.scheduler):
            yield f"the scheduler {template.scheduler} ignores node affinity"
        else:
            yield "" if is_accelerated or template.is_meant else NO_ACCELERATOR


def _bare(template: Template, earlier: Template | None, obstacle: str, *, queued: bool) -> Constraint:
    """The constraint of a template without what its annotations mean."""
    made: list[Annotation | None] = []
    carries = _carried(template, earlier, copies=not obstacle and not queued)
    for own, above, value in zip(template.own.all, template.above.all, carries, strict=True):
        if above is not None and value in (None, above.value):
            made.append(above)
        else:
            made.append(own if value is not None else None)
    annotations = Annotations(*made)
    return Constraint(template, annotations, earlier.said if earlier else NONE, carries, earlier, obstacle=obstacle)


def _carried(template: Template, earlier: Template | None, *, copies: bool) -> tuple[Any, ...]:
    """The values of the annotations that a template has after an update, see `carried`."""
    now = map(Values, template.own.values, template.above.values)
    before = map(Values, earlier.own.values, earlier.above.values) if earlier is not None else repeat(None)
    values = tuple(carried(one, was, copies=copies) for one, was in zip(now, before, strict=False))
    was = earlier.own.values if earlier is not None else ()
    if all(value is None for value in (*template.own.values, *was)) and any(value is not None for value in values):
        return template.above.values  # of a placement that was never applied all is copied, or nothing
    if values[0] is None and any(value is not None for value in values):
        return (template.own.values[0], *values[1:])  # what is its own needs its topology
    return values


def _judged(bare: Constraint, catalog: Catalog, options: Options) -> Constraint:
    """The constraint with the topology and placements that the annotations name, or with violations."""
    annotations = bare.annotations
    given = [annotation for annotation in annotations.all if annotation is not None]
    if not given:
        return bare
    malformed = tuple(refusal.malformed(annotation) for annotation in given if not isinstance(annotation.value, str))
    if malformed:
        return replace(bare, violations=malformed)
    named = annotations.topology
    if named is None:
        return replace(bare, violations=tuple(refusal.without_topology(annotation, catalog) for annotation in given))
    # The author of a workload is not responsible for the configuration.
    by_author = bool(named.key)
    topology = catalog.find(named.value.strip())
    if topology is None:
        return replace(bare, violations=_as_told([refusal.unknown_topology(named, catalog)], by_author=by_author))
    violations: list[Violation] = []
    required = _placement(annotations.required, topology, violations)
    preferred = _placement(annotations.preferred, topology, violations)
    if required and preferred and topology.position(preferred.level) <= topology.position(required.level):
        refused = refusal.not_more_specific(annotations.preferred, preferred.level, required.level, topology)
        violations.append(refusal.as_warning(refused.line) if options.not_more_specific == "warn" else refused)
    made = replace(
        bare, topology=topology, required=required, preferred=preferred, terms=required_terms(topology, required)
    )
    violations += _for_reader(made)
    return replace(made, violations=_as_told(violations, by_author=by_author))


def _as_told(violations: Sequence[Violation], *, by_author: bool) -> tuple[Violation, ...]:
    return tuple(violations if by_author else (refusal.as_warning(violation.line) for violation in violations))


def _placement(annotation: Annotation | None, topology: Topology, violations: list[Violation]) -> Placement | None:
    """The placement in an annotation. If it is invalid, adds a violation and returns None."""
    if annotation is None:
        return None
    try:
        return parse(annotation.value, topology)
    except PlacementError as error:
        violations.append(refusal.unreadable(annotation, error))
        return None


def _for_reader(constraint: Constraint) -> Iterator[Violation]:
    """Violations that apply only if the scheduler reads the annotations itself."""
    topology, reader = constraint.topology, constraint.reader
    if not reader or topology is None:
        return
    for annotation, placement in constraint.placements:
        if placement.is_named:
            yield refusal.domain_for_reader(annotation, reader, topology, placement)
        elif placement.level in topology.unions or NVL_DOMAIN in placement.level.keys:
            yield refusal.union_for_reader(annotation, reader, topology, placement.level)
