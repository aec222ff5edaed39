"""The reserved label namespaces: only the cloud may write labels under coreweave.cloud and coreweave.com.

A user's label there would steer what the cloud's controllers do with Nodes, Namespaces and Pods. The rule compares the
new object with the old one place by place, so labels that the cloud has set never block an unrelated write.
Source: "User-provided labels" in CoreWeave's page "Workload Scheduling on CKS".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, JsonObject, is_owned
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, Exemptions, is_control_plane
from policies.engine.violation import FIELD_LENGTH, More, Violation, first, printable, quote, shortened
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import Location, Pattern, locate, lookup, parse, render
from policies.objects.workload import Workload

RESERVED_DOMAINS = ("coreweave.cloud", "coreweave.com")
_SUBDOMAINS = tuple(f".{domain}" for domain in RESERVED_DOMAINS)
RULE = "labels"
SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
USE_OWN_PREFIX = "Use a label prefix of your own, such as example.org/bar; exceptions are made in labels.exceptions."
OWN_ORGANIZATION = f"Only {{}} may stand at {CONTROL_PLANE_LABEL}: the id of the organization whose cluster this is."
SET_ORGANIZATION = (
    "If this is the id of your organization, have an administrator set organization.id of cks-admission to it: "
    f"then Namespaces may carry {CONTROL_PLANE_LABEL} with it."
)
KEEP = "Leave these labels in place: the cluster's own controllers work by them."
MALFORMED = "Labels must be a map of strings to strings."
WRITE_MAP = "Write labels as key: value pairs."

# Where a removal is refused: the cloud's controllers read these labels on Nodes and Namespaces.
NAMESPACE = ("", "Namespace")
KEPT_KINDS = frozenset({("", "Node"), NAMESPACE})


class Role(Enum):
    """The kind of object that gets the labels at a place. It decides which exceptions apply there."""

    OWN = "the object itself"
    POD = "a Pod"
    JOB = "an object between a workload and its Pods"
    CLAIM = "a claim"
    NODE = "a Node"


class Place(Struct, frozen=True):
    """A map of labels in objects of a kind."""

    pattern: Pattern
    role: Role


class LabelException(Struct, frozen=True):
    """A reserved key that users may set on objects of some kinds.

    kinds: (group, kind) pairs. An exception for Pods also applies to pod templates and other objects whose labels are
    copied to Pods. values: the allowed values; empty allows any.
    """

    key: str
    kinds: frozenset[tuple[str, str]]
    values: frozenset[str] = frozenset()

    def allows(self, key: str, value: Any) -> bool:
        """Whether the exception allows this key with this value."""
        return key == self.key and (not self.values or (isinstance(value, str) and value in self.values))


POD = ("", "Pod")
INTERRUPTABLE = LabelException("qos.coreweave.cloud/interruptable", frozenset({POD}))
GRACEFUL = LabelException("qos.coreweave.com/graceful-interruptible", frozenset({POD}))
# The cloud's own public examples of MPIJobs set it and select by it.
JOB = LabelException("metadata.coreweave.cloud/job", frozenset({POD}))
EXCEPTIONS = (INTERRUPTABLE, GRACEFUL, JOB)


def organization(identifier: str) -> LabelException:
    """The exception that lets users mark Namespaces with their organization."""
    return LabelException(CONTROL_PLANE_LABEL, frozenset({NAMESPACE}), frozenset({identifier}))


def is_reserved(key: str) -> bool:
    """Whether a label key's prefix is a reserved domain or a subdomain of one."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and (prefix in RESERVED_DOMAINS or prefix.endswith(_SUBDOMAINS))


_METADATA_LABELS = ("metadata", "labels")
_EPHEMERAL_CLAIM = (*parse("volumes[*].ephemeral.volumeClaimTemplate"), *_METADATA_LABELS)
# The API server copies a Binding's labels onto the Pod that it binds.
BINDING = ("", "Binding")


def places_of(kind: tuple[str, str], row: Workload | None) -> tuple[Place, ...]:
    """Every place in objects of a kind whose labels end up in the cluster. The object's own labels come first."""
    own = Place(_METADATA_LABELS, Role.POD if kind in (POD, BINDING) else Role.OWN)
    if row is None:
        return (own,)
    places = [own]
    for template in row.templates:
        if template:  # a Pod is its own template
            places.append(Place((*template, *row.shape.labels), Role.POD))
        places.append(Place((*template, *row.shape.spec, *_EPHEMERAL_CLAIM), Role.CLAIM))
    places += (Place(labels, Role.POD) for labels in row.pod_labels)
    places += (Place((*job, *_METADATA_LABELS), Role.JOB) for job in row.jobs)
    places += (Place((*claim, *_METADATA_LABELS), Role.CLAIM) for claim in row.claims)
    places += (Place(labels, Role.NODE) for labels in row.node_labels)
    places += (Place(labels, Role.CLAIM) for labels in row.claim_labels)
    return tuple(places)


class LabelGuard:
    """The rule with its data: the table of workloads, the exceptions and the exempt requesters."""

    def __init__(
        self, workloads: Mapping[tuple[str, str], Workload], exceptions: Iterable[LabelException], exempt: Exemptions
    ) -> None:
        self.workloads = workloads
        self.exceptions = tuple(exceptions)
        self.exempt = exempt
        self.places = {kind: places_of(kind, row) for kind, row in workloads.items()}

    @property
    def reads(self) -> frozenset[str]:
        """The paths of all places, and the field that identifies a kubelet's own Pods."""
        paths = {render(place.pattern) for places in self.places.values() for place in places}
        return frozenset(paths | {"spec.nodeName"})

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation | More]:
        """The first reserved labels that the request adds, changes or, on Nodes and Namespaces, removes.

        Raises Missing or FactUnavailable, and only where a violation depends on a Namespace.
        """
        if request.object is None or request.operation not in ("CREATE", "UPDATE"):
            return ()
        judgement = _Judgement(self, request, request.object)
        offences, more = first(judgement.offences(), key=lambda offence: (offence.path, offence.key))
        if not offences or self.exempt.cover(request, facts):
            return ()
        if request.scope_namespace and is_control_plane(request.scope_namespace, facts):
            return ()
        violations = [offence.violation for offence in offences]
        return [*violations, More(more)] if more else violations


class _Offence(Struct):
    """A label that is refused, or with an empty key a value that is no map of labels."""

    path: str
    key: str
    value: Any
    problem: str
    remedy: str

    @property
    def violation(self) -> Violation:
        """The violation with its text."""
        if not self.key:
            return Violation(RULE, self.path, quote(self.value), "", MALFORMED, WRITE_MAP)
        shown = f"{printable(shortened(self.key, FIELD_LENGTH))}={quote(self.value)}"
        return Violation(RULE, self.path, shown, self.problem, SUMMARY, self.remedy)


class _Judgement:
    """The labels of one object, compared with those of the old one place by place."""

    def __init__(self, guard: LabelGuard, request: AdmissionRequest, obj: JsonObject) -> None:
        self._guard = guard
        self._kind = request.kind.group_kind
        self._places = guard.places.get(self._kind) or places_of(self._kind, None)
        self._object, self._old = obj, request.old_object
        self._on_pods: dict[str, tuple[set[str], list[Any]]] = {}

    def offences(self) -> Iterator[_Offence]:
        """The reserved labels that are added, changed or, on Nodes and Namespaces, removed, and malformed ones."""
        for place in self._places:
            for location, labels in locate(self._object, place.pattern):
                if labels is None:
                    continue
                if isinstance(labels, dict):
                    # The substring test is an optimization: it is false for nearly every label.
                    if reserved := [key for key in labels if "coreweave." in key and is_reserved(key)]:
                        before = lookup(self._old, location)
                        old = before if isinstance(before, dict) else {}
                        added = [key for key in reserved if key not in old or old[key] != labels[key]]
                        offences = (self._offence(location, place.role, key, labels[key], old) for key in added)
                        yield from (offence for offence in offences if offence is not None)
                elif lookup(self._old, location) != labels:
                    yield _Offence(render(location), "", labels, "", WRITE_MAP)
        if self._kind in KEPT_KINDS:
            before, after = lookup(self._old, _METADATA_LABELS), lookup(self._object, _METADATA_LABELS)
            for key, value in before.items() if isinstance(before, dict) else ():
                if is_reserved(key) and not (isinstance(after, dict) and key in after):
                    yield _Offence("metadata.labels", key, value, "must not be removed", KEEP)

    def _offence(
        self, location: Location, role: Role, key: str, value: Any, before: Mapping[str, Any]
    ) -> _Offence | None:
        """The offence of a label that is added or changed; None if an exception covers it.

        On a workload, a Pod's label passes only as a copy of a pod template's: without one it would have no effect.
        """
        path, guard = render(location), self._guard
        exceptions = [exception for exception in guard.exceptions if exception.allows(key, value)]
        if not exceptions:
            others = (one.key for one in guard.exceptions if one.key != CONTROL_PLANE_LABEL)
            keys = {other.partition("/")[2]: other for other in others}
            near = keys.get(closest(key.partition("/")[2], keys), key)
            remedy = USE_OWN_PREFIX
            # Nobody's organization has the id of the control plane.
            if key == CONTROL_PLANE_LABEL and self._kind == NAMESPACE:
                own = [
                    one for exception in guard.exceptions if exception.key == key for one in sorted(exception.values)
                ]
                others_id = USE_OWN_PREFIX if value == CONTROL_PLANE else SET_ORGANIZATION
                remedy = OWN_ORGANIZATION.format(quote(own[0])) if own else others_id
            return _Offence(path, key, value, f"(did you mean {near}?)" if near != key else "", remedy)
        for exception in exceptions:
            if role is Role.POD and POD in exception.kinds:
                return None
            # On a kind whose labels are kept, an old value is kept too, unless the user was allowed to set it.
            is_kept = self._kind in KEPT_KINDS and key in before and not exception.allows(key, before[key])
            if role is Role.OWN and self._kind in exception.kinds and not is_kept:
                return None
        row = guard.workloads.get(self._kind)
        has_pods = row is not None and (row.templates or row.pod_labels)
        is_for_pods = any(POD in exception.kinds for exception in exceptions)
        if not is_for_pods or role not in (Role.OWN, Role.JOB) or not has_pods:
            return _Offence(path, key, value, "", USE_OWN_PREFIX)
        patterns = [place.pattern for place in self._places if place.role is Role.POD]
        if key not in self._on_pods:  # the values in pod templates are read once for each key
            held = (labels for pattern in patterns for _, labels in locate(self._object, pattern))
            values = [labels[key] for labels in held if isinstance(labels, dict) and key in labels]
            texts = {other for other in values if isinstance(other, str)}
            self._on_pods[key] = texts, [other for other in values if not isinstance(other, str)]
        texts, odd = self._on_pods[key]
        if is_owned(self._object) or value in (texts if isinstance(value, str) else odd):
            return None
        where = " or ".join(map(render, patterns))
        return _Offence(path, key, value, "has no effect on any Pod here", f"Put {key} at {where}.")
