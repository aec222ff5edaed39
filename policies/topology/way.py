"""Who keeps a placement's promise, and what is written for that: annotations into templates, a gate into Pods.

Where no gate can be used, Pod affinity keeps a gang together. The scheduler places one Pod after the other then, and
the first one decides where all others have to fit. Source: PodAffinityTerm in the Kubernetes API reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct

from policies import nvlink
from policies.engine.facts import Facts, Node
from policies.engine.request import AdmissionRequest, JsonObject, controller_reference, is_owned, mapping
from policies.nvlink import NVL_DOMAIN
from policies.objects.fieldpath import Location, lookup
from policies.topology.affinity import with_peers, with_terms
from policies.topology.annotation import ANNOTATIONS, Annotation, Template, Values, carried
from policies.topology.constraint import Constraint, Options, Submission, Way, permitted
from policies.topology.gang.membership import membership
from policies.topology.gate import AFFINITY, GANG, GATE, WAY
from policies.topology.scheduling import kueue
from policies.topology.scheduling import workload as scheduling
from policies.topology.scheduling.workload import SupportKey
from policies.topology.term import preferred_terms, weights
from policies.topology.topology import Level, Topology, fnv1a_64

Edit = tuple[Location, Any]
"""A location and its new value; UNSET removes the value there."""

# Requirements and values in them that a Pod's node affinity may get. At some 70 bytes each they stay below 1.5 MiB.
_MOST_WRITTEN = 8 * 1024
_ANNOTATIONS = ("metadata", "annotations")


class Keeper(Struct, frozen=True):
    """Who keeps the Pods of a template together. way: empty for nobody. reason: why not an earlier way, or nobody.

    key: the node label key of a constraint for Kubernetes' own scheduling. may_mark: whether a gang that fits nowhere
    may be kept together by Pod affinity instead.
    """

    way: Way | Literal[""] = ""
    reason: str = ""
    key: str = ""
    may_mark: bool = False


def keeper(
    constraint: Constraint, submission: Submission, request: AdmissionRequest, options: Options, facts: Facts
) -> Keeper:
    """Who keeps the Pods of a template together: the first permitted way that can."""
    template = constraint.template
    if not constraint.is_placed:
        return Keeper(reason=constraint.obstacle)
    if not template.location and (other := _other_keeper(constraint, submission, request)) is not None:
        return other
    allowed = permitted(constraint, request, options, facts)
    if submission.queued and "kueue" in allowed:
        return _by_kueue(constraint)
    if any(NVL_DOMAIN in placement.level.keys for _, placement in constraint.placements):
        # No label names an NVL Domain: others who place Pods cannot be told of it.
        allowed = tuple(way for way in allowed if way == "gate")
    reason = ""
    if options.schedules and "workload" in allowed and submission.is_created:
        support, kind = facts.look_up(SupportKey()), request.kind.group_kind
        offer = scheduling.offer(constraint, kind, request.object or {}, support, facts.nodes())
        if offer.key:
            is_due = support.form == "Job" and template.location and not scheduling.is_written(request.object)
            return Keeper("workload", key=offer.key if is_due else "")
        reason = offer.obstacle
    return _keeper_of_one_by_one(constraint, allowed, reason, options)


def _other_keeper(constraint: Constraint, submission: Submission, request: AdmissionRequest) -> Keeper | None:
    """Who keeps a Pod that is none of ours; None for one that is."""
    template = constraint.template
    if template.spec.get("nodeName") or membership(request.object or {}, request.namespace) is None:
        return Keeper(reason="the Node is given")
    if not kueue.manages(template):
        return None
    # What stands on a Pod that Kueue made was told to its owner.
    return _by_kueue(constraint) if submission.queued and not is_owned(request.object) else Keeper("kueue")


def _by_kueue(constraint: Constraint) -> Keeper:
    """Kueue, for what it manages; nobody where it cannot be told of the level, since its Pods get no gate."""
    is_told = kueue.annotation(constraint) or kueue.has(constraint.template)
    return Keeper("kueue") if is_told else Keeper(reason=kueue.UNKNOWN)


def _keeper_of_one_by_one(constraint: Constraint, allowed: Sequence[Way], reason: str, options: Options) -> Keeper:
    """Who keeps Pods that the scheduler places one by one: the placer, or Pod affinity."""
    is_marked = constraint.template.annotation(WAY) == AFFINITY
    if "gate" in allowed and options.clustered and not (is_marked and "affinity" in allowed):
        return Keeper("gate", reason, may_mark="affinity" in allowed)
    if "affinity" not in allowed:
        return Keeper(reason=reason or f"only {', '.join(allowed) or 'others'} may keep them")
    if _size(constraint) > _MOST_WRITTEN:
        return Keeper(reason="what it names is too long for node affinity")
    why = reason if options.clustered else "there is no placer"
    return Keeper("affinity", f"by {WAY}" if is_marked else why, may_mark=is_marked)


def template_edits(
    constraint: Constraint, submission: Submission, kept: Keeper, before: Constraint | None, *, never: bool
) -> Iterator[Edit]:
    """The edits of a template's annotations: those of the placement, Kueue's own, and the mark of another way.

    before: the constraint before an update. never: whether the gang fits nowhere and goes by Pod affinity.
    """
    template, earlier = constraint.template, constraint.earlier
    wanted: dict[str, Any] = {}
    if constraint.is_usable:
        wanted |= zip(ANNOTATIONS, constraint.carries, strict=True)
    if submission.queued:
        wanted |= _of_kueue(constraint, kept, before)
    mark, own_mark = (AFFINITY if never else None), template.annotation(WAY)
    was_marked = earlier.annotation(WAY) if earlier is not None else None
    if constraint.is_usable:
        is_kept = not constraint.is_new and own_mark is None
        wanted[WAY] = (
            was_marked if is_kept else mark or (None if constraint.is_new and own_mark == was_marked else own_mark)
        )
    if not submission.may_change:
        # The template stays as it was; what a manifest that is applied again lacks is put back.
        before_it = {} if earlier is None else {key: earlier.annotation(key) for key in wanted}
        wanted = {
            key: value
            for key, value in wanted.items()
            if template.annotation(key) is None and value == before_it.get(key)
        }
    yield from _annotation_edits(template, wanted)


def job_edits(submission: Submission, keepers: Mapping[str, Keeper], request: AdmissionRequest) -> Iterator[Edit]:
    """The edits of a Job for Kubernetes' own scheduling: its constraint, which no update may clear."""
    for constraint in submission.constraints:
        if key := keepers[constraint.template.path].key:
            yield scheduling.FIELD, scheduling.scheduling(key)
        elif constraint.is_placed and request.kind.group_kind == scheduling.JOB and not submission.is_created:
            value = scheduling.restored(request.object or {}, request.old_object)
            if value is not None:
                yield scheduling.FIELD, value


def pod_edits(constraint: Constraint, kept: Keeper, request: AdmissionRequest, nodes: Sequence[Node]) -> Iterator[Edit]:
    """The edits of a new Pod: a gate, or affinity where it goes another way."""
    template, topology = constraint.template, constraint.topology
    if kept.way == "gate" and GATE not in template.gates:
        gates = template.spec.get("schedulingGates") or []
        if isinstance(gates, list):
            yield ("spec", "schedulingGates"), [*gates, {"name": GATE}]
    if kept.way not in ("affinity", "workload") or topology is None:
        return
    own, known = template.spec.get("affinity"), nvlink.cliques(node.labels for node in nodes)
    pool = () if topology.pool is None else topology.pool.requirements
    terms = [
        tuple(nvlink.written(requirement, known) for requirement in (*term, *pool))
        for term in constraint.terms or ((),)
    ]
    named = preferred_terms(topology, constraint.required, constraint.preferred)
    affinity = with_terms(own, [term for term in terms if term], named)
    if kept.way == "affinity":
        label = gang_label(constraint, request)
        affinity = with_peers(affinity, *_peers(constraint, topology, label, nodes))
        if mapping(template.metadata, "labels").get(GANG) != label:
            yield ("metadata", "labels", GANG), label
    if affinity != own:
        yield ("spec", "affinity"), affinity


def gang_label(constraint: Constraint, request: AdmissionRequest) -> str:
    """The value of GANG: the same for Pods of one root, revision and placement, and for no others."""
    obj = request.object or {}
    belongs, controller = membership(obj, request.namespace), controller_reference(obj)
    root = (request.namespace, request.uid) if belongs is None else (*_key(belongs.key), belongs.revision)
    if controller is not None and belongs is not None and controller.get("name") == belongs.key.name:
        root = (*root, str(controller.get("uid")))  # an object that was created again is another one
    text = "\n".join((*root, *(str(value) for value in constraint.annotations.values)))
    return f"{fnv1a_64(text.encode()):x}"


def is_lacking(constraint: Constraint, kept: Keeper, edits: Sequence[Edit]) -> bool:
    """Whether a new Pod or template lacks what the mutation adds, by the edits that it would make now."""
    template = constraint.template
    if template.location or kept.way not in ("gate", "affinity"):
        return any(location[-1] in ANNOTATIONS or location[-1:] == ("annotations",) for location, _ in edits)
    return GATE not in template.gates if kept.way == "gate" else GANG not in mapping(template.metadata, "labels")


def names(submission: Submission, request: AdmissionRequest) -> Iterator[Edit]:
    """Edits of annotations for a scheduler that reads them itself: full keys replace short names; aliases stay.

    An annotation that templates need with different names stays unchanged. So does one in a template that may no longer
    change, unless the edit restores its old value. A workload that is handed over to the scheduler later counts as new.
    """
    found: dict[Location, list[str]] = {}
    handed: set[Location] = set()
    for constraint in submission.constraints:
        if constraint.reader and constraint.is_usable:
            earlier = constraint.earlier
            is_handed = submission.may_change and earlier is not None and not earlier.reader
            for location, name in _full_names(constraint):
                found.setdefault(location, []).append(name)
                handed |= {location} if is_handed else set()
    for location, (name, *others) in found.items():
        present, before = lookup(request.object, location), lookup(request.old_object, location)
        if any(other != name for other in others) or present in (name, None):
            continue
        is_changed = submission.is_created or present != before or location in handed
        if is_changed and (submission.may_change or location[:1] == ("metadata",) or before == name):
            yield location, name


def _full_names(constraint: Constraint) -> Iterator[tuple[Location, str]]:
    """The locations of a template's annotations, with the values that its scheduler understands."""
    topology = constraint.topology
    if topology is None:
        return
    named: list[tuple[Annotation | None, str]] = [(constraint.annotations.topology, topology.name)]
    for placed, placement in constraint.placements:
        level = placement.level
        named.append((placed, level.alias if placed.value == level.alias else level.name))
    for annotation, name in named:
        for one in (annotation, *constraint.template.own.all):  # a template may repeat what stands around it
            if annotation and one and one.key and (one.key, one.value) == (annotation.key, annotation.value):
                yield one.location, name


def _of_kueue(constraint: Constraint, kept: Keeper, before: Constraint | None) -> dict[str, Any]:
    """Kueue's own annotations of a template. Those that its author wrote stay, and nothing is added to them."""
    template, earlier = constraint.template, constraint.earlier
    said = kueue.annotation(constraint) if kept.way == "kueue" else None
    was_said = kueue.annotation(before) if before is not None else None
    present = {name: template.annotation(name) for name in kueue.OWN if template.annotation(name) is not None}
    is_foreign = kueue.has(template) and any(pair not in (said, was_said) for pair in present.items())
    copies = not is_foreign and (not kueue.has(template) or bool(present))
    made: dict[str, Any] = {}
    for name in kueue.OWN:
        above, was_above = (pair[1] if pair and pair[0] == name else None for pair in (said, was_said))
        was = Values(earlier.annotation(name), was_above) if earlier is not None else None
        made[name] = carried(Values(template.annotation(name), above), was, copies=copies)
    return made


def _annotation_edits(template: Template, wanted: Mapping[str, Any]) -> Iterator[Edit]:
    """The edits that give annotations these values. Malformed metadata is left to the API server."""
    if not isinstance(template.value.get("metadata"), dict | None):
        return
    present = template.metadata.get("annotations")
    if not isinstance(present, dict | None):
        return
    at, own = template.at(*_ANNOTATIONS), present or {}
    changed = {key: value for key, value in wanted.items() if value != own.get(key)}
    left = {key: value for key, value in {**own, **changed}.items() if value is not None}
    if changed and not (own and left):
        yield at, left or UNSET
    else:
        yield from (((*at, key), UNSET if value is None else value) for key, value in changed.items())


def _size(constraint: Constraint) -> int:
    return sum(1 + len(requirement.values) for term in constraint.terms for requirement in term)


def _key(key: Any) -> tuple[str, ...]:
    return key.namespace, key.group, key.kind, key.name, key.part


def _peers(
    constraint: Constraint, topology: Topology, label: str, nodes: Sequence[Node]
) -> tuple[list[JsonObject], list[JsonObject]]:
    """The required and the preferred terms of Pod affinity of a gang to itself."""
    peers = {"labelSelector": {"matchLabels": {GANG: label}}}
    hard, soft = (
        _keys(annotation.value if annotation else "", placement.level, topology, nodes)
        if placement is not None and placement.is_open
        else []
        for annotation, placement in zip(
            constraint.annotations.all[1:], (constraint.required, constraint.preferred), strict=True
        )
    )
    soft = [key for key in soft if key not in hard]
    preferred = [
        {"weight": weight, "podAffinityTerm": {**peers, "topologyKey": key}}
        for key, weight in zip(soft, weights(len(soft)), strict=True)
    ]
    return [{**peers, "topologyKey": key} for key in hard], preferred


def _keys(written: Any, level: Level, topology: Topology, nodes: Sequence[Node]) -> list[str]:
    """The key of a level, then those of the levels above without which its values are not unique on these Nodes."""
    inside = [(node.labels, value) for node in nodes if (value := level.value(node.labels)) is not None]
    labels = [carried_labels for carried_labels, _ in inside]
    keys = [_most_carried(level, labels, str(written))]
    for above in reversed(topology.above(level)):
        holders: dict[str, set[str | None]] = {}
        for own, value in inside:
            holders.setdefault(value, set()).add(above.value(own))
        is_carried = not any(None in values for values in holders.values())
        if is_carried and any(len(values) > 1 for values in holders.values()):
            keys.append(_most_carried(above, labels, str(written)))
    return keys


def _most_carried(level: Level, labels: Sequence[Mapping[str, str]], written: str) -> str:
    """The key of a level that most Nodes carry, of equals the one that is written: Pod affinity knows one key only."""
    names = (level.name, *level.keys)
    return max(level.keys, key=lambda key: (sum(key in own for own in labels), key in written, key == names[0]))
