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
from policies.engine.requester import CONTROL_PLANE_LABEL, Exemptions, is_control_plane
from policies.engine.violation import Violation, printable, quote
from policies.objects.fieldpath import Location, Pattern, locate, lookup, parse, render
from policies.objects.workload import Workload

RESERVED_DOMAINS = ("coreweave.cloud", "coreweave.com")
RULE = "labels"
SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
USE_OWN_PREFIX = "Remove these labels or use a prefix of your own, such as example.org/bar."
KEEP = "Leave these labels in place: the cluster's own controllers work by them."
MALFORMED = "Labels must be a map of strings to strings."
WRITE_MAP = "Write labels as key: value pairs."

# Where a removal is refused: the cloud's controllers read these labels on Nodes and Namespaces.
KEPT_KINDS = frozenset({("", "Node"), ("", "Namespace")})


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


def organization(identifier: str) -> LabelException:
    """The exception that lets users mark Namespaces with their organization."""
    return LabelException(CONTROL_PLANE_LABEL, frozenset({("", "Namespace")}), frozenset({identifier}))


def is_reserved(key: str) -> bool:
    """Whether a label key's prefix is a reserved domain or a subdomain of one."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and any(prefix == domain or prefix.endswith("." + domain) for domain in RESERVED_DOMAINS)


_METADATA_LABELS = ("metadata", "labels")
_EPHEMERAL_CLAIM = (*parse("spec.volumes[*].ephemeral.volumeClaimTemplate"), *_METADATA_LABELS)
# The API server copies a Binding's labels onto the Pod that it binds.
_BINDING = ("", "Binding")


def places_of(kind: tuple[str, str], row: Workload | None) -> tuple[Place, ...]:
    """Every place in objects of a kind whose labels end up in the cluster. The object's own labels come first."""
    own = Place(_METADATA_LABELS, Role.POD if kind in (POD, _BINDING) else Role.OWN)
    if row is None:
        return (own,)
    places = [own]
    for template in row.templates:
        if template:  # a Pod is its own template
            places.append(Place((*template, *_METADATA_LABELS), Role.POD))
        places.append(Place((*template, *_EPHEMERAL_CLAIM), Role.CLAIM))
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
        self._places = {kind: places_of(kind, row) for kind, row in workloads.items()}

    @property
    def reads(self) -> frozenset[str]:
        """The paths of all places, and the field that identifies a kubelet's own Pods."""
        paths = {render(place.pattern) for places in self._places.values() for place in places}
        return frozenset(paths | {"spec.nodeName"})

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """Every reserved label that the request adds, changes or, on Nodes and Namespaces, removes.

        Raises Missing or FactUnavailable, and only where a violation depends on a Namespace.
        """
        if request.object is None or request.operation not in ("CREATE", "UPDATE"):
            return ()
        violations = list(self._added(request, request.object))
        if request.kind.group_kind in KEPT_KINDS:
            violations += _removed(request, request.object)
        if not violations or self.exempt.cover(request, facts):
            return ()
        if request.scope_namespace and is_control_plane(request.scope_namespace, facts):
            return ()
        return violations

    def _added(self, request: AdmissionRequest, obj: JsonObject) -> Iterator[Violation]:
        kind = request.kind.group_kind
        for place in self._places.get(kind) or places_of(kind, None):
            for location, labels in locate(obj, place.pattern):
                if labels is None:
                    continue
                if not isinstance(labels, dict):
                    if lookup(request.old_object, location) != labels:
                        yield Violation(RULE, render(location), quote(labels), "", MALFORMED, WRITE_MAP)
                    continue
                for key, value in labels.items():
                    # The substring test is an optimization: it is false for nearly every label.
                    if "coreweave." in key and is_reserved(key) and not _was_there(request, location, key, value):
                        violation = self._judge(request, place, location, key, value)
                        if violation is not None:
                            yield violation

    def _judge(self, request: AdmissionRequest, place: Place, at: Location, key: str, value: Any) -> Violation | None:
        """The violation for a new or changed label; None if an exception covers it."""
        kind = request.kind.group_kind
        for exception in self.exceptions:
            if not exception.allows(key, value):
                continue
            if place.role is Role.OWN and kind in exception.kinds:
                before = lookup(request.old_object, at)
                # On a kind whose labels are kept, an old value is kept too, unless the user was allowed to set it.
                keeps = kind in KEPT_KINDS and isinstance(before, dict) and key in before
                if not keeps or exception.allows(key, before[key]):
                    return None
                continue
            if POD not in exception.kinds:
                continue
            if place.role is Role.POD:
                return None
            if place.role in (Role.OWN, Role.JOB) and kind in self.workloads and self.workloads[kind].templates:
                return self._judge_copy(request, at, key, value)
        return Violation(RULE, render(at), _shown(key, value), "", SUMMARY, USE_OWN_PREFIX)

    def _judge_copy(self, request: AdmissionRequest, at: Location, key: str, value: Any) -> Violation | None:
        """The violation for a Pod's label on a workload; None for a copy of the template's label.

        A label that no template has would have no effect.
        """
        if is_owned(request.object):
            return None
        patterns = [p.pattern for p in self._places[request.kind.group_kind] if p.role is Role.POD]
        for pattern in patterns:
            for _, labels in locate(request.object, pattern):
                if isinstance(labels, dict) and labels.get(key) == value:
                    return None
        where = " or ".join(render(pattern) for pattern in patterns)
        problem = "has no effect on any Pod here"
        return Violation(RULE, render(at), _shown(key, value), problem, SUMMARY, f"Put {key} at {where}.")


def _shown(key: str, value: Any) -> str:
    return f"{printable(key)}={quote(value)}"


def _was_there(request: AdmissionRequest, at: Location, key: str, value: Any) -> bool:
    """Whether the old object had the label with this value at the same place."""
    before = lookup(request.old_object, at)
    return isinstance(before, dict) and key in before and bool(before[key] == value)


def _removed(request: AdmissionRequest, obj: JsonObject) -> Iterator[Violation]:
    before = lookup(request.old_object, _METADATA_LABELS)
    after = lookup(obj, _METADATA_LABELS)
    for key, value in before.items() if isinstance(before, dict) else ():
        if is_reserved(key) and not (isinstance(after, dict) and key in after):
            yield Violation(RULE, "metadata.labels", _shown(key, value), "must not be removed", SUMMARY, KEEP)
