"""Pod templates, each with the placement that its annotations ask for after a request, or with what is wrong with it.

Sources: KAI Scheduler's "Topology Aware Scheduling", whose pod grouper reads the annotations nearest to the Pods first;
Run:ai's documentation of topology-aware scheduling; CoreWeave's "Schedule Kubernetes Pods with the SUNK Pod Scheduler",
in which Slurm chooses the Node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector, Term
from policies.engine.request import (
    AdmissionRequest,
    JsonObject,
    as_map,
    is_being_deleted,
    is_mirror_pod,
    mapping,
    mappings,
)
from policies.engine.violation import Violation, listed, quote
from policies.kubernetes.name import matches_glob
from policies.kubernetes.spelling import closest, closest_first
from policies.objects.fieldpath import Location, Pattern, locate, lookup, render
from policies.objects.workload import STANDARD, Shape, Workload
from policies.podspec import Accelerators
from policies.topology.membership import owner
from policies.topology.placement import (
    ANNOTATIONS,
    GATE,
    MISSPELT,
    PREFIX,
    TOPOLOGY,
    WORDS,
    Placement,
    PlacementError,
    alternatives,
    parse,
)
from policies.topology.topology import NVL_DOMAIN, Catalog, Level, Topology
from policies.vocabulary import CLIQUE

RULE: Final = "topology"
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
_NOT_TOGETHER: Final = ("apps", "DaemonSet")
_SHOWN, _NAMES_SHOWN = 60, 12
_UNUSABLE = "The placement cannot be used."
_LEVELS_ONLY = "A scheduler that reads the annotations itself knows levels only."


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
        if matches_glob(name, self.reading):
            return f"schedulerName {name}"
        for holder in (template, workload):
            labels = mapping(mapping(holder, "metadata"), "labels")
            for label in self.labels:
                if label in labels:
                    return f"label {label}"
        return ""


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


class Annotations(NamedTuple):
    """The three annotations in the order of ANNOTATIONS, or None for each."""

    topology: Annotation | None = None
    required: Annotation | None = None
    preferred: Annotation | None = None

    @property
    def anything(self) -> bool:
        """Whether there is any."""
        return self != _NONE

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the annotations, regardless of their locations."""
        return tuple(None if annotation is None else annotation.value for annotation in self)


_NONE: Final = Annotations()


class Template(Struct, frozen=True):
    """A pod template, or the Pod itself, with its placement after the request.

    value: as Kubernetes writes a template. shape: how it is written. own: its annotations. above: for each key, the
    annotation on the nearest holder around it. is_meant: whether one is on the template itself or on the nearest job
    template around it, and so is meant for this template. handed: why its scheduler would read annotations itself.

    annotations: those that apply to it, with the default. carries: the values of the three annotations that it is to
    have itself. earlier: the template before an update. obstacle: why nothing is written for it, else empty.
    terms: of which a Node must meet one: named domains, and what the topology requires.
    """

    location: Location
    value: JsonObject
    own: Annotations = _NONE
    above: Annotations = _NONE
    is_meant: bool = False
    handed: str = ""
    shape: Shape = STANDARD
    annotations: Annotations = _NONE
    carries: tuple[Any, ...] = (None, None, None)
    earlier: Template | None = None
    obstacle: str = ""
    topology: Topology | None = None
    required: Placement | None = None
    preferred: Placement | None = None
    violations: tuple[Violation, ...] = ()
    terms: Sequence[Term] = ()

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
    def nearest(self) -> Annotations:
        """For each key the annotation nearest to its Pods."""
        return Annotations(*(own or above for own, above in zip(self.own, self.above, strict=True)))

    @property
    def before(self) -> Annotations:
        """The annotations that applied to it before an update."""
        return _NONE if self.earlier is None else self.earlier.nearest

    @property
    def reader(self) -> str:
        """Why its scheduler reads the annotations itself, else empty."""
        return self.handed if self.annotations.anything else ""

    @property
    def placements(self) -> Iterator[tuple[Annotation, Placement]]:
        """The valid placements, each with its annotation. The required one comes first."""
        for annotation, placement in zip(self.annotations[1:], (self.required, self.preferred), strict=True):
            if annotation is not None and placement is not None:
                yield annotation, placement

    @property
    def placement(self) -> Placement | None:
        """The placement that decides where the gang starts: the required one, else the preferred one."""
        return self.required or self.preferred

    @property
    def whole(self) -> object:
        """The whole placement, which the Pods of a gang share: topology, levels and named domains."""
        return self.topology and self.topology.name, self.required, self.preferred

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
        return not any(annotation is not None and annotation.key for annotation in self.annotations)

    @property
    def is_usable(self) -> bool:
        """Whether the placements can be used: all of them are known, and all violations are warnings."""
        asked = zip(self.annotations, (self.topology, self.required, self.preferred), strict=True)
        is_known = all(annotation is None or known is not None for annotation, known in asked)
        return is_known and all(violation.verdict == "warn" for violation in self.violations)

    @property
    def is_placed(self) -> bool:
        """Whether its Pods are to be kept together by one of the ways."""
        return self.topology is not None and self.placement is not None and self.is_usable and not self.obstacle

    @property
    def is_new(self) -> bool:
        """Whether the placement or the scheduler has changed."""
        earlier = self.earlier
        if earlier is None or self.annotations.values != self.before.values:
            return True
        return self.annotations.anything and (earlier.scheduler, earlier.handed) != (self.scheduler, self.handed)


class Case(Struct, frozen=True):
    """A request that the rule is for. templates: those after it. may_change: whether their metadata may change.

    is_created: whether the object is created. queued: whether Kueue manages it.
    """

    request: AdmissionRequest
    obj: JsonObject
    row: Workload
    catalog: Catalog
    options: Options
    facts: Facts
    templates: tuple[Template, ...]
    may_change: bool
    is_created: bool
    queued: bool = False

    def previous(self, template: Template) -> Template | None:
        """What the placement of a template was before an update; None for a new one."""
        earlier, before = template.earlier, template.before
        if earlier is None:
            return None
        return replace(earlier, annotations=before, **_meaning(before, earlier.handed, self)._asdict())


def read(request: AdmissionRequest, catalog: Catalog, options: Options, facts: Facts) -> Case | None:
    """What a request asks for; None if the rule does not apply to it."""
    obj, row = request.object, options.workloads.get(request.kind.group_kind)
    if obj is None or row is None or request.sub_resource:
        return None
    prefers = bool(options.default.topology and options.default.preferred) and _is_distributed(obj, row)
    if not (prefers or mentions(row, obj, request.old_object) or is_gated(obj, row)):
        return None
    controller = None if row.kind == "Pod" else owner(obj)
    # A controller puts back what it wants. One that is not in the table of kinds may know nothing of the annotations,
    # as that of a TrainJob; then the object counts when it is created.
    is_known = controller is not None and (controller.group, controller.kind) in options.workloads
    is_left = is_known or (controller is not None and request.operation != "CREATE")
    if is_left or is_being_deleted(obj) or is_mirror_pod(obj):
        return None
    old = request.old_object if request.operation == "UPDATE" else None
    may_change = old is None or row.changes == "always"
    if row.changes == "suspended":
        may_change = may_change or mapping(old, "spec").get("suspend") is True
    queued = bool(mapping(mapping(obj, "metadata"), "labels").get(QUEUE))
    case = Case(request, obj, row, catalog, options, facts, (), may_change, old is None, queued)
    # What holds where there are no annotations; only the topology for an object that is not distributed.
    default, namespace = _NONE, request.scope_namespace
    selector = options.default.namespaces
    if options.default.topology and (
        not selector.requirements or (namespace and selector.matches(facts.namespace_labels(namespace)))
    ):
        topology, level = catalog.find(options.default.topology), options.default.preferred
        if level == LOWEST and topology is not None:
            level = topology.called(topology.lowest)
        preferred = Annotation(level, (), "") if level and _is_distributed(obj, row) else None
        default = Annotations(Annotation(options.default.topology, (), ""), None, preferred)
    found, former = (tuple(templates(one, row, options.schedulers)) for one in (obj, old))
    now, at = _defaulted(found, default, former), {one.location: one for one in _defaulted(former, default)}
    shared: dict[Any, _Meaning] = {}  # most templates share the annotations of the workload
    made = []
    for template, obstacle in zip(now, _obstacles(case, now), strict=True):
        earlier = at.get(template.location)
        carries = _carried(template, earlier, copies=not obstacle and not queued)
        annotations = Annotations(
            *(
                above if above is not None and value in (None, above.value) else own if value is not None else None
                for own, above, value in zip(template.own, template.above, carries, strict=True)
            )
        )
        # Where they stand is in the words about them, and a scheduler that reads them itself takes fewer forms.
        key = (*((one and (one.location, str(one.value))) for one in annotations), template.handed)
        meaning = shared.get(key) or shared.setdefault(key, _meaning(annotations, template.handed, case))
        made.append(
            replace(
                template, annotations=annotations, carries=carries, earlier=earlier, obstacle=obstacle,
                **meaning._asdict(),
            )
        )  # fmt: skip
    return replace(case, templates=tuple(made))


def carried(own: Any, above: Any, before: tuple[Any, Any] | None, *, copies: bool = True) -> Any:
    """The value of an annotation that a template has after a write, so that its Pods carry it; None for none.

    What changed counts. own, above: the values in the template and around it. before: both before the write; None for a
    template that was not there. copies: whether a template that has none gets what is said around it.
    """
    was_own, was_above = before or (None, None)
    if own is None:
        # A template that never had it stays as it is: an unrelated update must not roll its Pods.
        is_due = before is None or above != was_above or was_own is not None
        return above if copies and is_due else None
    return above if was_above is not None and own == was_own == was_above else own


def mentions(row: Workload, *objects: JsonObject | None) -> bool:
    """Whether objects of a kind have any of the annotations."""
    return any(
        not _KEYS.isdisjoint(as_map(found))
        for obj in objects
        for pattern in places(row, "annotations")
        for _, found in locate(obj, pattern)
    )


def strays(row: Workload, obj: JsonObject | None) -> Iterator[Location]:
    """The locations of keys in an object that look like the annotations and are none: misspelt ones, and labels."""
    fields: tuple[tuple[Literal["annotations", "labels"], tuple[str, ...]], ...]
    fields = (("annotations", ANNOTATIONS), ("labels", ()))
    for field, known in fields:
        for pattern in places(row, field):
            for place, found in locate(obj, pattern):
                if isinstance(found, dict):
                    for key in (key for key in found if key not in known):
                        if key.startswith(MISSPELT) or (key.startswith(PREFIX) and any(word in key for word in WORDS)):
                            yield (*place, key)


def as_warning(text: str, *, is_outcome: bool = False) -> Violation:
    """A warning, regardless of the rule's action. is_outcome: see `Violation`."""
    return Violation(RULE, "", "", "", text, "", "warn", is_outcome=is_outcome)


_KEYS = frozenset(ANNOTATIONS)


@lru_cache(maxsize=256)
def places(row: Workload, field: Literal["annotations", "labels"]) -> tuple[Pattern, ...]:
    """Where objects of a kind have annotations or labels: their own, those of jobs and templates."""
    above = ((*holder, "metadata", field) for holder in ((), *row.jobs))
    own = row.shape.annotations if field == "annotations" else row.shape.labels
    return tuple(dict.fromkeys((*above, *((*template, *own) for template in row.templates))))


def templates(obj: JsonObject | None, row: Workload, schedulers: Schedulers) -> Iterator[Template]:
    """The templates that are maps, with a map as spec or without one. The API server refuses others."""
    for pattern in row.templates if obj is not None else ():
        depths = sorted((len(job) for job in row.jobs if pattern[: len(job)] == job), reverse=True)
        for location, written in locate(obj, pattern):
            value = row.view(obj, written)
            if not isinstance(value, dict) or not isinstance(value.get("spec"), dict | None):
                continue
            around = [(location[:depth], lookup(obj, location[:depth])) for depth in depths]
            jobs = [_annotations(job, place) for place, job in around if isinstance(job, dict)]
            own = _annotations(value, location, row.shape)
            above = _NONE
            for farther in (*jobs, *([_annotations(obj or {}, ())] if location else [])):
                above = Annotations(*(a or b for a, b in zip(above, farther, strict=True)))
            is_meant = own.anything or (bool(jobs) and jobs[0].anything)
            yield Template(location, value, own, above, is_meant, schedulers.reader(obj or {}, value), row.shape)


def _annotations(holder: JsonObject, place: Location, shape: Shape = STANDARD) -> Annotations:
    found = mapping(mapping(holder, "metadata"), "annotations")
    return Annotations(
        *(Annotation(found[key], place, key, shape.annotations) if key in found else None for key in ANNOTATIONS)
    )


def is_gated(obj: JsonObject, row: Workload) -> bool:
    """Whether a template has our gate, which is no business of people's."""
    gates = (gate for _, pod in row.pods(obj) for gate in mappings(mapping(pod, "spec"), "schedulingGates"))
    return any(gate.get("name") == GATE for gate in gates)


def _is_distributed(obj: JsonObject, row: Workload) -> bool:
    if row.group_kind != ("batch", "Job"):
        return row.group_kind in _DISTRIBUTED
    spec = mapping(obj, "spec")
    return any(isinstance(spec.get(field), int) and spec[field] > 1 for field in ("parallelism", "completions"))


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
        above, nearest = template.above, template.nearest
        if not asks and default.preferred is not None:
            above = default
        elif nearest.topology is None:
            above = above._replace(topology=default.topology) if nearest.anything else above
        elif above.topology is None and above.anything and nearest.topology.value == default.topology.value:
            # It was written for a placement that names none.
            above = above._replace(topology=default.topology)
        made.append(replace(template, above=above))
    return tuple(made)


def _obstacles(case: Case, found: Sequence[Template]) -> Iterator[str]:
    row, options = case.row, case.options
    accelerated = [True] * len(found)
    if len(found) > 1:
        asking = [options.accelerators.requested(one.value, case.request.namespace, case.facts) for one in found]
        accelerated = asking if any(asking) else accelerated
    for template, is_accelerated in zip(found, accelerated, strict=True):
        if row.changes == "never" and not template.own.anything:
            yield f"nothing is written into a {row.kind}; write the annotations into its template"
        elif row.group_kind == _NOT_TOGETHER:
            yield f"a {row.kind} has a Pod on each Node, which belong to no gang"
        elif template.handed:
            yield f"its scheduler reads the annotations itself ({template.handed})"
        elif matches_glob(template.scheduler, options.schedulers.ignoring):
            yield f"the scheduler {template.scheduler} ignores node affinity"
        else:
            yield "" if is_accelerated or template.is_meant else NO_ACCELERATOR


def _carried(template: Template, earlier: Template | None, *, copies: bool) -> tuple[Any, ...]:
    """The values of the annotations that a template has after an update, see `carried`."""
    own, above = template.own.values, template.above.values
    was: Sequence[tuple[Any, Any] | None] = (None, None, None)
    if earlier is not None:
        was = list(zip(earlier.own.values, earlier.above.values, strict=True))
    values = tuple(carried(o, a, w, copies=copies) for o, a, w in zip(own, above, was, strict=True))
    if any(value is not None for value in values):
        if not any(value is not None for value in (*own, *(earlier.own.values if earlier is not None else ()))):
            return above  # of a placement that was never applied all is copied, or nothing
        if values[0] is None:
            return (own[0], *values[1:])  # what is its own needs its topology
    return values


class _Meaning(NamedTuple):
    """What annotations mean: fields of a template."""

    violations: tuple[Violation, ...] = ()
    topology: Topology | None = None
    required: Placement | None = None
    preferred: Placement | None = None
    terms: Sequence[Term] = ()


def _meaning(annotations: Annotations, handed: str, case: Case) -> _Meaning:
    """The topology and placements that annotations name, or violations. handed: see `Template`."""
    given = [annotation for annotation in annotations if annotation is not None]
    malformed = [one for one in given if not isinstance(one.value, str)]
    if not given or malformed:
        return _Meaning(tuple(_refusal(one, "is no string.", _UNUSABLE, "Quote the value.") for one in malformed))
    named, names = annotations.topology, case.catalog.by_name
    if named is None:
        remedy = f"Add the annotation {TOPOLOGY}: NAME. {_known(list(names))}"
        summary = "A placement needs a topology."
        return _Meaning(tuple(_refusal(one, "is a level of no topology.", summary, remedy) for one in given))
    violations: list[Violation] = []
    topology, required, preferred = case.catalog.find(named.value.strip()), None, None
    terms: Sequence[Term] = ()
    if topology is None:
        near, known = closest(named.value, names), _known(closest_first(named.value, names))
        problem = "is no known topology." if named.value.strip() else "is empty."
        remedy = f"Did you mean {near}? {known}" if near else known
        violations.append(_refusal(named, problem, "The topology is not known.", remedy))
    else:
        required = _placement(annotations.required, topology, violations)
        preferred = _placement(annotations.preferred, topology, violations)
        if required and preferred and topology.position(preferred.level) <= topology.position(required.level):
            refused_one = _not_more_specific(annotations.preferred, preferred.level, required.level, topology)
            is_warning = case.options.not_more_specific == "warn"
            violations.append(as_warning(refused_one.line) if is_warning else refused_one)
        terms = alternatives(() if required is None else required.domains, topology.requirement)
        placed = ((annotations.required, required), (annotations.preferred, preferred))
        violations += _for_reader(placed if handed else (), topology, handed)
    # The author of a workload is not responsible for the configuration.
    shown = violations if named.key else [as_warning(violation.line) for violation in violations]
    return _Meaning(tuple(shown), topology, required, preferred, terms)


def _placement(annotation: Annotation | None, topology: Topology, violations: list[Violation]) -> Placement | None:
    if annotation is None:
        return None
    try:
        return parse(annotation.value, topology)
    except PlacementError as error:
        violations.append(_refusal(annotation, error.problem, _UNUSABLE, error.remedy))
        return None


def _not_more_specific(
    annotation: Annotation | None, preferred: Level, required: Level, topology: Topology
) -> Violation:
    name, floor = topology.called(preferred), topology.called(required)
    same = topology.position(preferred) == topology.position(required)
    problem = "is the level that is required already." if same else f"is farther than the required {quote(floor)}."
    below, above = topology.below(required), topology.above(preferred)
    advice = f"Prefer {either(topology, below)}" if below else f"Nothing is more specific than {floor}: prefer nothing"
    if above:
        advice += f", or require a level above {name}: {either(topology, above)}"
    summary = "The preferred placement must be more specific than the required one."
    path = annotation.path if annotation else ""
    return Violation(RULE, path, quote(name), problem, summary, f"  {topology.in_order}\n{advice}.")


def _for_reader(
    placed: Iterable[tuple[Annotation | None, Placement | None]], topology: Topology, reader: str
) -> Iterator[Violation]:
    """Refusals of what a scheduler that reads the annotations itself cannot read: domains, and unions of levels."""
    for annotation, placement in placed:
        if annotation is None or placement is None:
            continue
        level = placement.level
        if placement.named:
            problem = f"names a domain, which the scheduler cannot read ({reader})."
            remedy = f"Write {topology.called(level)}, and choose the domain by a node selector."
            yield _refusal(annotation, problem, _LEVELS_ONLY, remedy)
        elif level in topology.unions or NVL_DOMAIN in level.keys:
            keys = {*level.keys, level.beside, CLIQUE if NVL_DOMAIN in level.keys else ""} - {NVL_DOMAIN}
            levels = either(topology, [known for known in topology.levels if known.keys[0] in keys])
            problem = f"is no level that the scheduler knows ({reader})."
            yield _refusal(annotation, problem, _LEVELS_ONLY, f"Write {levels}.")


def _refusal(annotation: Annotation, problem: str, summary: str, remedy: str) -> Violation:
    return Violation(RULE, annotation.path, quote(annotation.value), problem, summary, remedy)


def _known(names: Sequence[str]) -> str:
    return f"Known topologies: {listed(names, _NAMES_SHOWN)}."


def either(topology: Topology, levels: Sequence[Level]) -> str:
    """One of the levels, by their names."""
    *others, last = map(topology.called, levels)
    return f"{', '.join(others)} or {last}" if others else last
