"""Who keeps a placement's promise, and what is written for that: annotations into templates, a gate into Pods.

Where no gate can be used, Pod affinity keeps a gang together. The scheduler places one Pod after the other then, and
the first one decides where all others have to fit. Kueue does not read the annotations of KAI: it chooses the domain
when it admits a workload, and accepts one of its own annotations on a pod template.

Kubernetes' own workload scheduling places all Pods of a Job together. A domain of kube-scheduler is one value of one
node label key, so that a constraint is the same as a placement only where the key's values are unique: superpod 1 of
two fabrics would be one domain. From Kubernetes 1.37 on it stands in the Job; in 1.36 it is set on the PodGroup that is
made for the Job, when that is created, as it is immutable.

Sources: PodAffinityTerm in the Kubernetes API reference; the page "Topology Aware Scheduling" of Kueue's documentation,
and the validation in its pkg/controller/jobframework; JobSchedulingConfiguration in the API of Kubernetes 1.37, and
pkg/controller/job/job_scheduling_manager.go, for the Jobs that get a PodGroup with a gang.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from msgspec import UNSET, Struct

from policies.engine.facts import Node
from policies.engine.interruption import FactUnavailable, Key
from policies.engine.request import JsonObject, as_map, controller_reference, is_owned, mapping
from policies.engine.violation import Violation, quote
from policies.kubernetes.name import matches_glob
from policies.kubernetes.spelling import with_article
from policies.objects.fieldpath import Location, lookup
from policies.podspec import node_demand
from policies.topology.membership import membership
from policies.topology.placement import (
    AFFINITY,
    ANNOTATIONS,
    GANG,
    GATE,
    WAY,
    meets,
    preferred_terms,
    weights,
    with_peers,
    with_terms,
)
from policies.topology.template import USUAL, Annotation, Case, Template, Way, as_warning, carried
from policies.topology.topology import NVL_DOMAIN, Level, Topology, cliques_of, fnv1a_64, in_cliques

Edit = tuple[Location, Any]
"""A location and its new value; UNSET removes the value there."""

ANNOTATION: Final = "cks-admission.dev/workload-scheduling"
"""The annotation of the webhook configuration with what `manage` found out, as JSON."""

GROUP: Final = "scheduling.k8s.io"
POD_GROUP: Final = (GROUP, "PodGroup")
JOB: Final = ("batch", "Job")
JOB_VERSION: Final = ("batch", "v1", "Job")
FIELD: Final = ("spec", "scheduling")
"""The location of the constraint in a Job."""

CONSTRAINTS: Final = ("spec", "schedulingConstraints")
"""The location of the constraint in a PodGroup."""

_DEFAULT_SCHEDULERS = ("", "default-scheduler")
_ONLY_INDEXED = "Kubernetes 1.36 makes gangs only of Indexed Jobs with as many completions as Pods at a time"

Form = Literal["", "Job", "PodGroup"]
"""The kind whose spec takes a constraint: a Job from Kubernetes 1.37 on, in 1.36 the PodGroup that is made for it."""


class Support(Struct, frozen=True):
    """The form of a constraint that the cluster keeps; empty if it keeps none, and then the reason."""

    form: Form = ""
    reason: str = ""


class SupportKey(Key[Support], Struct, frozen=True):
    """The key of the cluster's support."""

    UNKNOWN: ClassVar[str] = "it is not known yet whether the cluster schedules workloads by topology"

    def failure(self, reason: str) -> Support | FactUnavailable:
        """No support. A placement must not fail because of that: another way is taken."""
        return Support(reason=f"{self.missing}: {reason}")


class JobKey(Key[JsonObject], Struct, frozen=True):
    """The key of a Job; its value is empty if it is gone, or another one by now."""

    UNKNOWN: ClassVar[str] = "Job {0.namespace}/{0.name} is not known yet"
    namespace: str
    name: str
    uid: str

    def failure(self, reason: str) -> JsonObject | FactUnavailable:
        """It could not be read: its PodGroup must not come to life without the constraint that the Job was told."""
        return FactUnavailable(f"{self.missing}, and {reason}")


def offer(
    template: Template, group_kind: tuple[str, str], obj: JsonObject, support: Support, nodes: Iterable[Node]
) -> tuple[str, str]:
    """The node label key of a constraint that does what a placement asks for; empty if there is none, and then why.

    It is for a new Job, or for a Pod in a PodGroup. nodes: all Nodes of the cluster; taints do not count, so that there
    may be an obstacle more than necessary.
    """
    topology, required = template.topology, template.required
    if obstacle := support.reason if not support.form else _obstacle(template, group_kind, obj, support):
        return "", obstacle
    if topology is None or required is None or not required.is_open:
        return "", "no level is required"
    level, name, demand = required.level, topology.called(required.level), node_demand(template.spec)
    eligible = [
        node.labels
        for node in nodes
        if any(key in node.labels for key in level.keys) and meets(node.labels, template.terms) and demand.allows(node)
    ]
    if not eligible:
        return "", f"no Node that the Pods may run on has {with_article(name)}"
    # The first key under which all Nodes have a value; each value has to be in one place.
    common = next((key for key in level.keys if all(key in labels for labels in eligible)), "")
    if not common:
        return "", f"not all Nodes have the same label for {name}: {', '.join(level.keys)}"
    places: dict[str, tuple[str | None, ...]] = {}
    for labels in eligible:
        value, place = labels[common], tuple(farther.value(labels) for farther in topology.above(level))
        if places.setdefault(value, place) != place:
            return "", f"{name} {value} is in several places; name the one around it"
    return common, ""


def scheduling(key: str) -> JsonObject:
    """The value of `spec.scheduling` of a Job whose Pods all start in one domain of a key, or none of them."""
    return {"schedulingPolicy": {"gang": {}}, "schedulingConstraints": constraints(key)}


def constraints(key: str) -> JsonObject:
    """The scheduling constraints of a gang that belongs in one domain of a key."""
    return {"topology": [{"key": key}]}


def is_written(job: JsonObject | None) -> bool:
    """Whether a Job has a constraint as it is written here."""
    written = mapping(mapping(mapping(job, "spec"), "scheduling"), "schedulingConstraints")
    topology = written.get("topology")
    keys = [as_map(one).get("key") for one in topology] if isinstance(topology, list) else []
    return len(keys) == 1 and written == constraints(str(keys[0]))


def job_of(pod_group: JsonObject, namespace: str) -> JobKey | None:
    """The key of the Job for which a PodGroup is made, if it has no constraint of its own; None for others."""
    reference = controller_reference(pod_group)
    if reference is None or mapping(pod_group, "spec").get(CONSTRAINTS[1]) is not None:
        return None
    is_job = reference.get("kind") == "Job" and str(reference.get("apiVersion")).startswith("batch/")
    return JobKey(namespace, str(reference.get("name")), str(reference.get("uid"))) if is_job else None


def _obstacle(template: Template, group_kind: tuple[str, str], obj: JsonObject, support: Support) -> str:
    spec, of_job = mapping(obj, "spec"), group_kind == JOB
    parallelism = spec.get("parallelism")
    says_itself = {"scheduling", "schedulingGroup"} & {*spec, *template.spec} and not is_written(obj)
    is_indexed = spec.get("completionMode") == "Indexed" and spec.get("completions") == parallelism
    obstacles = {
        f"Kubernetes makes no gang of a {group_kind[1]}": not of_job and "schedulingGroup" not in spec,
        "a preferred level is no part of Kubernetes' constraints": template.preferred is not None,
        f"its scheduler is {template.scheduler}": template.scheduler not in _DEFAULT_SCHEDULERS,
        "it says itself how it is scheduled": of_job and says_itself,
        "it has one Pod at a time": of_job and (not isinstance(parallelism, int) or parallelism < 2),
        _ONLY_INDEXED: of_job and support.form == "PodGroup" and not is_indexed,
    }
    return next((text for text, holds in obstacles.items() if holds), "")


_KUEUE: Final = "kueue.x-k8s.io/"
_KUEUE_REQUIRED, _KUEUE_PREFERRED = f"{_KUEUE}podset-required-topology", f"{_KUEUE}podset-preferred-topology"
_OF_KUEUE: Final = (_KUEUE_REQUIRED, _KUEUE_PREFERRED)
_UNKNOWN_TO_KUEUE: Final = "Kueue does not know the level, and its Pods get no gate"

# Requirements and values in them that a Pod's node affinity may get. At some 70 bytes each they stay below 1.5 MiB.
_MOST_WRITTEN = 8 * 1024
_ANNOTATIONS = ("metadata", "annotations")


class FlavorsKey(Key[frozenset[str] | None], Struct, frozen=True):
    """The key of the topologies that ResourceFlavors of Kueue name; None if they are not known."""

    UNKNOWN: ClassVar[str] = "the ResourceFlavors of Kueue are not known yet"

    def failure(self, reason: str) -> frozenset[str] | FactUnavailable | None:
        """Nothing is known of them, and nothing said."""
        del reason
        return None


class Keeper(Struct, frozen=True):
    """Who keeps the Pods of a template together. way: empty for nobody. reason: why not an earlier way, or nobody.

    key: the node label key of a constraint for Kubernetes' own scheduling. may_mark: whether a gang that fits nowhere
    may be kept together by Pod affinity instead.
    """

    way: Way | Literal[""] = ""
    reason: str = ""
    key: str = ""
    may_mark: bool = False

    @property
    def of_kueue(self) -> bool:
        """Whether Kueue places the Pods, together or not."""
        return self.way == "kueue" or self.reason == _UNKNOWN_TO_KUEUE


def keeper(template: Template, case: Case) -> Keeper:
    """Who keeps the Pods of a template together: the first permitted way that can."""
    request, facts = case.request, case.facts
    if not template.is_placed:
        return Keeper(reason=template.obstacle)
    if not template.location and (other := _keeper_of_others_pod(template, case)) is not None:
        return other
    allowed = permitted(template, case)
    if case.queued and "kueue" in allowed:
        return _by_kueue(template)
    if any(NVL_DOMAIN in placement.level.keys for _, placement in template.placements):
        # No label names an NVL Domain: others who place Pods cannot be told of it.
        allowed = tuple(way for way in allowed if way == "gate")
    reason = ""
    if case.options.schedules and "workload" in allowed and case.is_created:
        support, kind = facts.look_up(SupportKey()), request.kind.group_kind
        key, reason = offer(template, kind, case.obj, support, facts.nodes())
        if key:
            is_due = support.form == "Job" and template.location and not is_written(case.obj)
            return Keeper("workload", key=key if is_due else "")
    return _keeper_of_one_by_one(template, case, allowed, reason)


def _keeper_of_one_by_one(template: Template, case: Case, allowed: Sequence[Way], reason: str) -> Keeper:
    is_marked, is_clustered = template.annotation(WAY) == AFFINITY, case.options.clustered
    if "gate" in allowed and is_clustered and not (is_marked and "affinity" in allowed):
        return Keeper("gate", reason, may_mark="affinity" in allowed)
    if "affinity" not in allowed:
        return Keeper(reason=reason or f"only {', '.join(allowed) or 'others'} may keep them")
    if sum(1 + len(requirement.values) for term in template.terms for requirement in term) > _MOST_WRITTEN:
        return Keeper(reason="what it names is too long for node affinity")
    why = reason if is_clustered else "there is no placer"
    return Keeper("affinity", f"by {WAY}" if is_marked else why, may_mark=is_marked)


def _keeper_of_others_pod(template: Template, case: Case) -> Keeper | None:
    """Who keeps a Pod that is none of ours; None for one that is."""
    if template.spec.get("nodeName") or membership(case.obj, case.request.namespace) is None:
        return Keeper(reason="the Node is given")
    held = (*mapping(template.metadata, "labels"), *mapping(template.metadata, "annotations"), *template.gates)
    if not any(key.startswith(_KUEUE) for key in held):
        return None
    # What stands on a Pod that Kueue made was told to its owner.
    return _by_kueue(template) if case.queued and not is_owned(case.obj) else Keeper("kueue")


def permitted(template: Template, case: Case) -> tuple[Way, ...]:
    """The ways of the first permission for a placement's topology and Namespace; the usual ones if there is none."""
    name, namespace = "" if template.topology is None else template.topology.name, case.request.scope_namespace
    for permission in case.options.placement:
        selector = permission.namespaces
        if matches_glob(name, permission.topologies) and (
            not selector.requirements or selector.matches(case.facts.namespace_labels(namespace) if namespace else {})
        ):
            return permission.ways
    return USUAL


def template_edits(template: Template, case: Case, kept: Keeper, *, never: bool) -> Iterator[Edit]:
    """The edits of a template's annotations: those of the placement, Kueue's own, and the mark of another way.

    never: whether the gang fits nowhere and goes by Pod affinity. Malformed metadata is left to the API server.
    """
    earlier, metadata = template.earlier, template.value.get("metadata")
    wanted: dict[str, Any] = {}
    if template.is_usable:
        wanted |= zip(ANNOTATIONS, template.carries, strict=True)
    if case.queued:
        wanted |= _kueues_annotations(template, case, kept)
    mark, own_mark = (AFFINITY if never else None), template.annotation(WAY)
    was_marked = earlier.annotation(WAY) if earlier is not None else None
    if template.is_usable:
        is_kept = not template.is_new and own_mark is None
        wanted[WAY] = (
            was_marked if is_kept else mark or (None if template.is_new and own_mark == was_marked else own_mark)
        )
    if not case.may_change:
        # The template stays as it was; what a manifest that is applied again lacks is put back.
        wanted = {
            key: value
            for key, value in wanted.items()
            if template.annotation(key) is None and value == (earlier.annotation(key) if earlier is not None else None)
        }
    present = template.metadata.get("annotations")
    if not (isinstance(metadata, dict | None) and isinstance(present, dict | None)):
        return
    at, own = template.at(*_ANNOTATIONS), present or {}
    changed = {key: value for key, value in wanted.items() if value != own.get(key)}
    left = {key: value for key, value in {**own, **changed}.items() if value is not None}
    if changed and not (own and left):
        yield at, left or UNSET
    else:
        yield from (((*at, key), UNSET if value is None else value) for key, value in changed.items())


def pod_edits(template: Template, case: Case, kept: Keeper) -> Iterator[Edit]:
    """The edits of a new Pod: a gate, or affinity where it goes another way."""
    topology, nodes, request = template.topology, case.facts.nodes(), case.request
    if kept.way == "gate" and GATE not in template.gates:
        gates = template.spec.get("schedulingGates") or []
        if isinstance(gates, list):
            yield ("spec", "schedulingGates"), [*gates, {"name": GATE}]
    if kept.way not in ("affinity", "workload") or topology is None:
        return
    labels = [node.labels for node in nodes]
    own, known = template.spec.get("affinity"), cliques_of(labels)
    pool = () if topology.pool is None else topology.pool.requirements
    terms = [
        tuple(in_cliques(requirement, known) for requirement in (*term, *pool)) for term in template.terms or ((),)
    ]
    named = preferred_terms(topology, template.required, template.preferred)
    affinity = with_terms(own, [term for term in terms if term], named)
    if kept.way == "affinity":
        # The gang's label: the same for Pods of one root, revision and placement, and for no others.
        belongs, controller = membership(case.obj, request.namespace), controller_reference(case.obj)
        root: tuple[str, ...] = (request.namespace, request.uid)
        if belongs is not None:
            key = belongs.key
            root = (key.namespace, key.group, key.kind, key.name, key.part, belongs.revision)
            if controller is not None and controller.get("name") == key.name:
                root = (*root, str(controller.get("uid")))  # an object that was created again is another one
        text = "\n".join((*root, *(str(value) for value in template.annotations.values)))
        label = f"{fnv1a_64(text.encode()):x}"
        affinity = with_peers(affinity, *_peers(template, topology, label, labels))
        if mapping(template.metadata, "labels").get(GANG) != label:
            yield ("metadata", "labels", GANG), label
    if affinity != own:
        yield ("spec", "affinity"), affinity


def names(case: Case) -> Iterator[Edit]:
    """Edits of annotations for a scheduler that reads them itself: full keys replace short names; aliases stay.

    An annotation that templates need with different names stays unchanged. So does one in a template that may no longer
    change, unless the edit restores its old value. A workload that is handed over to the scheduler later counts as new.
    """
    found: dict[Location, list[str]] = {}
    handed: set[Location] = set()
    for template in case.templates:
        topology = template.topology
        if topology is None or not (template.reader and template.is_usable):
            continue
        named: list[tuple[Annotation | None, str]] = [(template.annotations.topology, topology.name)]
        for placed, placement in template.placements:
            level = placement.level
            named.append((placed, level.alias if placed.value == level.alias else level.name))
        locations = [
            (one.location, name)
            for annotation, name in named
            for one in (annotation, *template.own)  # a template may repeat what stands around it
            if annotation and one and one.key and (one.key, one.value) == (annotation.key, annotation.value)
        ]
        for location, name in locations:
            found.setdefault(location, []).append(name)
        if case.may_change and template.earlier is not None and not template.earlier.handed:
            handed |= {location for location, _ in locations}
    for location, (name, *others) in found.items():
        present, before = lookup(case.obj, location), lookup(case.request.old_object, location)
        if any(other != name for other in others) or present in (name, None):
            continue
        is_changed = case.is_created or present != before or location in handed
        if is_changed and (case.may_change or location[:1] == ("metadata",) or before == name):
            yield location, name


def kueue_warnings(template: Template, flavored: Collection[str] | None) -> Iterator[Violation]:
    """What Kueue will not do. flavored: the topologies that ResourceFlavors name; None if that is not known."""
    topology, required, preferred = template.topology, template.required, template.preferred
    if topology is None:
        return
    if required is not None and preferred is not None:
        yield as_warning(
            f"Kueue takes one level: required {quote(topology.called(required.level))} counts, "
            f"preferred {quote(topology.called(preferred.level))} does not"
        )
    for _, placement in template.placements:
        name = topology.called(placement.level)
        if placement.named:
            yield as_warning(
                f"Kueue takes levels only: {quote(placement.called(topology))} becomes {quote(name)}; choose the "
                "domain by a node selector"
            )
        if placement.level in topology.unions:
            keys = placement.level.beside or ", ".join(placement.level.keys)
            yield as_warning(f"Kueue does not know {quote(name)}: name one of its levels, {keys}")
    if flavored is not None and topology.name not in flavored:
        yield as_warning(
            f"no ResourceFlavor of Kueue names topology {quote(topology.name)}, so Kueue admits nothing that needs it"
        )


def _by_kueue(template: Template) -> Keeper:
    """Kueue, for what it manages; nobody where it cannot be told of the level, since its Pods get no gate."""
    is_told = _for_kueue(template) is not None or _says_to_kueue(template)
    return Keeper("kueue") if is_told else Keeper(reason=_UNKNOWN_TO_KUEUE)


def _for_kueue(template: Template | None) -> tuple[str, str] | None:
    """The annotation that says a placement to Kueue, the required one first; None for a union, which has no key."""
    placement, topology = (None, None) if template is None else (template.placement, template.topology)
    if template is None or placement is None or topology is None or placement.level in topology.unions:
        return None
    return _KUEUE_PREFERRED if template.required is None else _KUEUE_REQUIRED, placement.level.name


def _says_to_kueue(template: Template) -> bool:
    """Whether a template has one of Kueue's annotations for all of its Pods."""
    return any(template.annotation(key) is not None for key in (*_OF_KUEUE, f"{_KUEUE}podset-unconstrained-topology"))


def _kueues_annotations(template: Template, case: Case, kept: Keeper) -> dict[str, Any]:
    """Kueue's own annotations of a template. Those that its author wrote stay, and nothing is added to them."""
    earlier, says = template.earlier, _says_to_kueue(template)
    now = _for_kueue(template) if kept.way == "kueue" else None
    before = _for_kueue(case.previous(template))
    present = {name: template.annotation(name) for name in _OF_KUEUE if template.annotation(name) is not None}
    is_foreign = says and any(pair not in (now, before) for pair in present.items())
    copies = not is_foreign and (not says or bool(present))
    made: dict[str, Any] = {}
    for name in _OF_KUEUE:
        above, was_above = (pair[1] if pair and pair[0] == name else None for pair in (now, before))
        was = (earlier.annotation(name), was_above) if earlier is not None else None
        made[name] = carried(template.annotation(name), above, was, copies=copies)
    return made


def _peers(
    template: Template, topology: Topology, label: str, nodes: Sequence[Mapping[str, str]]
) -> tuple[list[JsonObject], list[JsonObject]]:
    peers = {"labelSelector": {"matchLabels": {GANG: label}}}
    hard, soft = (
        _keys(annotation.value if annotation else "", placement.level, topology, nodes)
        if placement is not None and placement.is_open
        else []
        for annotation, placement in zip(template.annotations[1:], (template.required, template.preferred), strict=True)
    )
    soft = [key for key in soft if key not in hard]
    preferred = [
        {"weight": weight, "podAffinityTerm": {**peers, "topologyKey": key}}
        for key, weight in zip(soft, weights(len(soft)), strict=True)
    ]
    return [{**peers, "topologyKey": key} for key in hard], preferred


def _keys(written: Any, level: Level, topology: Topology, nodes: Sequence[Mapping[str, str]]) -> list[str]:
    """The key of a level, then those of the levels above without which its values are not unique on these Nodes."""
    inside = [(labels, value) for labels in nodes if (value := level.value(labels)) is not None]

    def most_carried(one: Level) -> str:
        """The key that most Nodes carry, of equals the one that is written: Pod affinity knows one key only."""
        counts = {key: sum(key in labels for labels, _ in inside) for key in one.keys}
        return max(one.keys, key=lambda key: (counts[key], key in str(written), key == one.name))

    keys = [most_carried(level)]
    for above in reversed(topology.above(level)):
        holders: dict[str, set[str | None]] = {}
        for labels, value in inside:
            holders.setdefault(value, set()).add(above.value(labels))
        is_carried = not any(None in values for values in holders.values())
        if is_carried and any(len(values) > 1 for values in holders.values()):
            keys.append(most_carried(above))
    return keys
