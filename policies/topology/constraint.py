"""The constraints of a workload's templates: the levels and domains that their annotations name, or violations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Facts
from policies.engine.match import EVERYTHING, LabelSelector
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_mirror_pod, is_owned, mapping
from policies.engine.violation import Violation
from policies.objects.accelerator import Accelerators
from policies.objects.workload import REVISED, Workload
from policies.topology import refusal
from policies.topology.affinity import NOTHING, are_alike, selector_terms, with_terms, without_terms
from policies.topology.annotation import Annotated, Annotation, Annotations, Schedulers, Template, annotated, mentions
from policies.topology.catalog import Catalog
from policies.topology.gang.membership import owner
from policies.topology.placement import Placement, PlacementError, parse
from policies.topology.term import Term, preferred_terms, required_terms
from policies.topology.topology import Topology
from policies.topology.way.permission import Permission
from policies.vocabulary.nvlink import NVL_DOMAIN, Cliques, cliques, written

LOWEST = "lowest"
REPIN = "cks-admission.dev/repin"
"""The annotation with which people ask for another choice: any value that it did not have before."""

# What one request may add to node affinity: requirements and values in them. They may double the user's own terms. At
# some 70 bytes each, all of it together stays below the 1.5 MiB that the API server stores.
MOST_WRITTEN = 8 * 1024
TOO_LARGE = "it would get too large"
NO_ACCELERATOR = "it requests no accelerator, as other templates of the workload do"
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

    placement: the ways that are permitted; the first permission for a topology and Namespace counts. full: what happens
    to a gang for which there is no room now. autoscaling: whether Nodes may come that are not there yet. refuses:
    whether the rule refuses at all. schedules: whether Kubernetes' own scheduling of workloads may be made use of.
    topograph: prefixes of the keys that Topograph was told to write.
    """

    workloads: Mapping[tuple[str, str], Workload]
    schedulers: Schedulers = Schedulers()
    accelerators: Accelerators = Accelerators()
    default: Default = Default()
    not_more_specific: Literal["deny", "warn"] = "deny"
    unapplied: Literal["deny", "warn"] = "warn"
    pool_keys: tuple[str, ...] = ("compute.coreweave.com/node-pool", "kai.scheduler/node-pool", "runai/node-pool")
    placement: tuple[Permission, ...] = ()
    full: Literal["pin", "wait", "refuse"] = "pin"
    autoscaling: Literal["unknown", "off"] = "unknown"
    refuses: bool = True
    schedules: bool = False
    topograph: tuple[str, ...] = ()


class Constraint(Struct, frozen=True):
    """A template with its placements.

    annotations: those that apply to it, or the default. earlier: the template at its place before an update. reader:
    why its scheduler reads the annotations itself, else empty. obstacle: why it gets no affinity, else empty. terms,
    preferences: the terms for the placements, of which a Node must meet one, and should meet as many as possible.
    is_same: whether the annotations before an update meant the same placements. cliques: see `nvlink`.
    """

    template: Template
    annotations: Annotations
    earlier: Template | None = None
    topology: Topology | None = None
    required: Placement | None = None
    preferred: Placement | None = None
    reader: str = ""
    obstacle: str = ""
    violations: tuple[Violation, ...] = ()
    terms: Sequence[Term] = ()
    preferences: Sequence[JsonObject] = ()
    is_same: bool = False
    cliques: Cliques = {}

    @property
    def placements(self) -> Iterator[tuple[Annotation, Placement]]:
        """The valid placements, each with its annotation. The required one comes first."""
        annotations = self.annotations
        for annotation, placement in ((annotations.required, self.required), (annotations.preferred, self.preferred)):
            if annotation is not None and placement is not None:
                yield annotation, placement

    @property
    def is_default(self) -> bool:
        """Whether the placements are the default of the configuration."""
        return not any(annotation is not None and annotation.key for annotation in self.annotations.all)

    @property
    def requires_level(self) -> bool:
        """Whether one domain of a level is required, whichever it is."""
        return self.required is not None and self.required.is_open

    @property
    def prefers_level(self) -> bool:
        """Whether one domain of a level is preferred, whichever it is."""
        return self.preferred is not None and self.preferred.is_open

    @property
    def own_preferences(self) -> Sequence[JsonObject]:
        """The preferred terms for domains that the user names. Those for a bare level draw no two Pods together."""
        if not self.prefers_level or self.preferred is None or self.topology is None:
            return self.preferences
        return preferred_terms(self.topology, self.required, Placement(self.preferred.domains[:-1]))

    @property
    def is_open(self) -> bool:
        """Whether a domain is to be chosen."""
        return not self.obstacle and self.is_usable and (self.requires_level or self.prefers_level)

    @property
    def is_usable(self) -> bool:
        """Whether the placements can be used: all violations are warnings."""
        return all(violation.verdict == "warn" for violation in self.violations)

    @property
    def is_new(self) -> bool:
        """Whether the annotations or the scheduler have changed."""
        template, earlier = self.template, self.earlier
        if earlier is None or earlier.annotations.values != template.annotations.values:
            return True
        has_other_reader = self.annotations.anything and earlier.reader != template.reader
        return earlier.scheduler != template.scheduler or has_other_reader

    @property
    def differs(self) -> bool:
        """Whether the affinity, or anything that it depends on, has changed."""
        earlier = self.earlier
        return earlier is None or self.is_new or not are_alike(earlier.affinity, self.template.affinity)


class Submission(Struct, frozen=True):
    """The templates of a request, with their constraints.

    now: the object's templates. earlier: those before an update. may_change: whether this request may change their
    affinity. is_revised: whether a controller may restore earlier templates. is_suspended: whether it has no
    Pods now, and may be placed when it is resumed. is_resumed: whether this update resumes it. repins: whether it asks
    for another choice, by another value of the annotation REPIN.
    """

    constraints: tuple[Constraint, ...]
    now: Annotated
    earlier: tuple[Template, ...]
    may_change: bool
    is_revised: bool
    is_suspended: bool = False
    is_resumed: bool = False
    repins: bool = False


def read(request: AdmissionRequest, catalog: Catalog, options: Options, facts: Facts) -> Submission | None:
    """The submission of a request; None if the rule does not apply to it."""
    obj, row = request.object, options.workloads.get(request.kind.group_kind)
    if obj is None or row is None or request.sub_resource:
        return None
    default = options.default
    prefers = bool(default.topology and default.preferred) and _is_distributed(obj, row)
    if not (prefers or mentions(row, obj, request.old_object)):
        return None
    if is_being_deleted(obj) or is_mirror_pod(obj) or (row.kind != "Pod" and is_owned(obj) and not _is_whole(obj)):
        return None
    return _submission(request, obj, row, catalog, options, facts)


def _is_whole(obj: JsonObject) -> bool:
    """Whether a gang is known from this object only, and not from its controller, which leaves it as it is.

    A TrainJob has no template. Source: Kubeflow Trainer, which applies a JobSet and does not touch one that runs.
    """
    controller = owner(obj)
    return controller is not None and (controller.group, controller.kind) == ("trainer.kubeflow.org", "TrainJob")


def _submission(
    request: AdmissionRequest, obj: JsonObject, row: Workload, catalog: Catalog, options: Options, facts: Facts
) -> Submission:
    old = request.old_object if request.operation == "UPDATE" else None
    now, before = annotated(obj, row, options.schedulers), annotated(old, row, options.schedulers)
    is_suspended, was_suspended = (
        row.affinity == "suspended" and mapping(version, "spec").get("suspend") is True for version in (obj, old)
    )
    may_change = old is None or row.affinity == "always" or was_suspended
    default = _default(request, obj, row, options, facts)
    annotations = [template.annotations for template in now.templates]
    if default is not None and default.preferred and not any(own.anything for own in annotations):
        by_default = Annotations(Annotation(default.topology, (), ""), None, Annotation(default.preferred, (), ""))
        annotations = [by_default] * len(annotations)
    obstacles = _obstacles(request.namespace, row, now.templates, options, facts)
    shared: dict[Any, Constraint] = {}  # most templates share the annotations of the workload
    earlier = {template.location: template for template in before.templates}
    constraints = []
    for template, own, obstacle in zip(now.templates, annotations, obstacles, strict=True):
        if own.places not in shared:
            made = _constraint(template, own, catalog, default, options)
            shared[own.places] = _with_cliques(made, facts)
        constraint = _applied(shared[own.places], template, earlier.get(template.location), obstacle)
        if constraint.earlier is not None and constraint.is_new:
            constraint = replace(constraint, is_same=_is_same(constraint, catalog, default, options))
        if not constraint.obstacle and _is_too_large(constraint, MOST_WRITTEN // len(now.templates)):
            constraint = replace(constraint, obstacle=TOO_LARGE)
        constraints.append(constraint)
    is_revised, is_resumed = row.group_kind in REVISED, was_suspended and not is_suspended
    repins = old is not None and _repin(obj) is not None and _repin(obj) != _repin(old)
    return Submission(
        tuple(constraints), now, before.templates, may_change, is_revised, is_suspended, is_resumed, repins
    )


def _repin(obj: JsonObject) -> Any:
    return mapping(mapping(obj, "metadata"), "annotations").get(REPIN)


def _with_cliques(constraint: Constraint, facts: Facts) -> Constraint:
    """The constraint with the cliques that stand for the NVL Domains of its topology, if this has that level."""
    topology = constraint.topology
    if topology is None or not any(NVL_DOMAIN in level.keys for level in topology.levels):
        return constraint
    known = cliques(node.labels for node in facts.nodes())
    terms = tuple(tuple(written(requirement, known) for requirement in term) for term in constraint.terms)
    return replace(constraint, terms=terms, cliques=known)


def _applied(shared: Constraint, template: Template, earlier: Template | None, obstacle: str) -> Constraint:
    """The constraint of one template, made from the one that it shares with others."""
    annotations = shared.annotations
    reader = template.reader if annotations.anything else ""
    if reader:
        obstacle = f"its scheduler reads the annotations itself ({reader})"
    violations = (*shared.violations, *_for_reader(shared, reader))
    if annotations.topology is not None and not annotations.topology.key:
        # The author of a workload is not responsible for the configuration.
        violations = tuple(refusal.as_warning(violation.line) for violation in violations)
    return replace(shared, template=template, earlier=earlier, reader=reader, obstacle=obstacle, violations=violations)


def _is_same(now: Constraint, catalog: Catalog, default: Default | None, options: Options) -> bool:
    """Whether the annotations before an update meant the same placements, and the same scheduler read them."""
    earlier = now.earlier
    if earlier is None or earlier.scheduler != now.template.scheduler or earlier.reader != now.template.reader:
        return False
    before = _constraint(earlier, earlier.annotations, catalog, default, options)
    asked = [(constraint.topology, constraint.required, constraint.preferred) for constraint in (now, before)]
    return now.is_usable and before.is_usable and asked[0] == asked[1] and now.topology is not None


def _is_too_large(constraint: Constraint, most: int) -> bool:
    """Whether more than `most` requirements and values would be added to a template, or looked at to find that out.

    The answer is the same after they were added, even if they were not recorded. Each of the user's terms can become
    two, for the two ways in which Nodes are labelled, so twice as many are looked at.
    """
    template = constraint.template
    own = without_terms(template.affinity, template.entry)
    expressions = [requirement.to_json() for term in constraint.terms for requirement in term]
    preferred = [preference["preference"]["matchExpressions"] for preference in constraint.preferences]
    size = max(1, len(selector_terms(own))) * _size(expressions) + sum(map(_size, preferred))
    if size <= most:
        return False
    return size > 2 * most or with_terms(own, constraint.terms, constraint.preferences)[1] != NOTHING


def _size(expressions: Iterable[JsonObject]) -> int:
    return sum(1 + len(expression.get("values", ())) for expression in expressions)


def _is_distributed(obj: JsonObject, row: Workload) -> bool:
    """Whether a workload has several Pods that work together."""
    if row.group_kind != ("batch", "Job"):
        return row.group_kind in _DISTRIBUTED
    spec = mapping(obj, "spec")
    return any(isinstance(spec.get(field), int) and spec[field] > 1 for field in ("parallelism", "completions"))


def _default(
    request: AdmissionRequest, obj: JsonObject, row: Workload, options: Options, facts: Facts
) -> Default | None:
    """The default for an object; without a preferred level if the object is not a distributed workload."""
    default = options.default
    if not default.topology:
        return None
    if default.namespaces.requirements:
        namespace = request.scope_namespace
        if not namespace or not default.namespaces.matches(facts.namespace_labels(namespace)):
            return None
    return default if _is_distributed(obj, row) else Default(default.topology, "")


def _obstacles(
    namespace: str, row: Workload, templates: Sequence[Template], options: Options, facts: Facts
) -> list[str]:
    """For each template, why it gets no affinity; empty if it gets one."""
    if row.affinity == "never":
        return [f"a {row.kind} is never translated; write it yourself"] * len(templates)
    if len(templates) < 2:
        return [""] * len(templates)
    accelerated = [options.accelerators.requested(template.value, namespace, facts) for template in templates]
    if not any(accelerated):
        return [""] * len(templates)
    return [
        NO_ACCELERATOR if not (is_accelerated or template.is_meant) else ""
        for template, is_accelerated in zip(templates, accelerated, strict=True)
    ]


def _constraint(
    template: Template, annotations: Annotations, catalog: Catalog, default: Default | None, options: Options
) -> Constraint:
    """The constraint with the topology and placements that the annotations name, or with violations."""
    bare = Constraint(template, annotations)
    given = [annotation for annotation in annotations.all if annotation is not None]
    if not given:
        return bare
    malformed = tuple(refusal.malformed(annotation) for annotation in given if not isinstance(annotation.value, str))
    if malformed:
        return replace(bare, violations=malformed)
    named = annotations.topology or (Annotation(default.topology, (), "") if default else None)
    if named is None:
        return replace(bare, violations=tuple(refusal.without_topology(annotation, catalog) for annotation in given))
    topology = catalog.find(named.value.strip())
    if topology is None:
        return replace(bare, violations=(refusal.unknown_topology(named, catalog),))
    violations: list[Violation] = []
    required = _placement(annotations.required, topology, violations)
    preferred = _placement(annotations.preferred, topology, violations)
    if required and preferred and topology.position(preferred.level) <= topology.position(required.level):
        refused = refusal.not_more_specific(annotations.preferred, preferred.level, required.level, topology)
        violations.append(refusal.as_warning(refused.line) if options.not_more_specific == "warn" else refused)
    return replace(
        bare, topology=topology, required=required, preferred=preferred, violations=tuple(violations),
        terms=required_terms(topology, required, preferred),
        preferences=preferred_terms(topology, required, preferred),
    )  # fmt: skip


def _placement(annotation: Annotation | None, topology: Topology, violations: list[Violation]) -> Placement | None:
    """The placement in an annotation. If it is invalid, adds a violation and returns None."""
    if annotation is None:
        return None
    is_lowest = not annotation.key and annotation.value == LOWEST
    try:
        return parse(topology.lowest.name if is_lowest else annotation.value, topology)
    except PlacementError as error:
        violations.append(refusal.unreadable(annotation, error))
        return None


def _for_reader(constraint: Constraint, reader: str) -> Iterator[Violation]:
    """Violations that apply only if the scheduler reads the annotations itself."""
    topology = constraint.topology
    if not reader or topology is None:
        return
    for annotation, placement in constraint.placements:
        if placement.is_named:
            yield refusal.domain_for_reader(annotation, reader, topology, placement)
        elif placement.level in topology.unions or NVL_DOMAIN in placement.level.keys:
            yield refusal.union_for_reader(annotation, reader, topology, placement.level)
