"""The facts beyond its request that a rule may use: Namespaces, Nodes, device claims, the date.

Rules are pure, so they get facts as an argument. Nodes, claims and topologies are those that a watch has delivered so
far. Facts that may have to be read first are looked up by a key: see `policies.engine.interruption`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, ClassVar, Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policies.engine.interruption import Expired, FactUnavailable, Key
from policies.engine.request import JsonObject, mapping

NAME_LABEL = "kubernetes.io/metadata.name"
T = TypeVar("T")


class Namespace(Struct, frozen=True):
    """A Namespace. content: the fields that `namespaceObject` shows, as JSON."""

    labels: Mapping[str, str]
    content: bytes = b"{}"


class NamespaceKey(Key[Namespace], Struct, frozen=True):
    """The key of a Namespace: its name."""

    UNKNOWN: ClassVar[str] = "namespace {0.name!r} is not known yet"
    name: str


class Taint(Struct, frozen=True):
    """A Node's taint."""

    key: str
    effect: str
    value: str = ""

    def is_tolerated(self, key: str, operator: str, value: str, effect: str) -> bool:
        """Whether a toleration with these fields tolerates the taint (ToleratesTaint in core/v1/toleration.go)."""
        if effect not in ("", self.effect) or key not in ("", self.key):
            return False
        return operator == "Exists" or (operator in ("", "Equal") and value == self.value)


class Node(Struct, frozen=True):
    """The part of a Node that scheduling rules read. allocatable: what it has for Pods, by resource, sorted."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: tuple[tuple[str, int], ...] = ()


class References(Struct, frozen=True):
    """Workloads that name a topology, such as `Job default/train`. incomplete: why some may be missing, else empty."""

    workloads: tuple[str, ...] = ()
    incomplete: str = ""


NO_REFERENCES = References()


class ReferencesKey(Key[References], Struct, frozen=True):
    """The key of the workloads that name a topology."""

    UNKNOWN: ClassVar[str] = "the workloads that name the topology {0.topology!r} are not known yet"
    topology: str


class Facts(Struct, frozen=True, kw_only=True):
    """The facts that rules may use. entries: values and failures by key that were looked up for one review.

    expired: the clock of the review; None for as much time as it takes. skipped: names of policies that are too slow to
    be evaluated. after_rule: called with the name of each rule and mutating policy after its evaluation, or of those
    judged together. spend: called with the largest part of a cost limit that a policy has used; not of those judged
    together, which use little.
    """

    entries: Mapping[Key[Any], Any] = {}
    expired: Expired | None = None
    skipped: frozenset[str] = frozenset()
    after_rule: Callable[[str | Sequence[str]], None] | None = None
    spend: Callable[[str, float], None] | None = None

    def entered(self, key: Key[T], entry: T | FactUnavailable) -> Self:
        """These facts with one more entry."""
        return replace(self, entries={**self.entries, key: entry})

    def look_up(self, key: Key[T]) -> T:
        """The value of a key. Raises Missing or FactUnavailable."""
        entry = self.entries[key] if self.entries and key in self.entries else self.known(key)
        if isinstance(entry, FactUnavailable):
            raise entry
        value: T = entry
        return value

    def known(self, key: Key[T]) -> T | FactUnavailable:
        """The value or failure of a key without an entry. Raises Missing."""
        raise NotImplementedError

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a Namespace. Raises Missing or FactUnavailable."""
        return self.look_up(NamespaceKey(name)).labels

    def namespace(self, name: str) -> JsonObject:
        """A Namespace with the fields that `namespaceObject` shows. Raises Missing or FactUnavailable."""
        namespace: JsonObject = msgspec.json.decode(self.look_up(NamespaceKey(name)).content)
        return namespace

    def answer(self, check: Key[T]) -> T:
        """The answer to an authorization check of an expression. Raises Missing."""
        return self.look_up(check)

    def priorities(self) -> Mapping[str, int] | None:
        """The values of PriorityClasses by name, that of the default one under the empty name; None if not known."""
        return None

    def nodes(self) -> Sequence[Node]:
        """The Nodes of the cluster; none without a cluster."""
        raise NotImplementedError

    def nodes_to_come(self) -> Sequence[Mapping[str, str]]:
        """Labels of Nodes that an autoscaler may add, for each of its pools; there are others that are not known."""
        return ()

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """The device classes that a ResourceClaim or ResourceClaimTemplate requests; none if it is not known.

        One of `claim` and `template` is a name, the other is empty.
        """
        raise NotImplementedError

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names of the cluster's DeviceClasses, by class."""
        raise NotImplementedError

    def topologies(self) -> tuple[Any, ...]:
        """The topologies in the cluster (policies.topology.topology); the same tuple until one of them changes."""
        raise NotImplementedError

    def today(self) -> date:
        """The date in UTC. It decides which exceptions have ended."""
        raise NotImplementedError


class StaticFacts(Facts, frozen=True):
    """Facts that are given in advance, on a command line or by a test.

    namespaces: labels by name. whole_namespaces: the other fields of some of them. decisions: answers authorization
    checks; None if nothing can answer them. classes: the values of PriorityClasses; None if they are not known.
    coming: labels of Nodes that may be added.
    """

    as_of: date
    namespaces: Mapping[str, Mapping[str, str]] = {}
    cluster_nodes: tuple[Node, ...] = ()
    claims: Mapping[tuple[str, str], frozenset[str]] = {}
    claim_templates: Mapping[tuple[str, str], frozenset[str]] = {}
    extended: Mapping[str, str] = {}
    decisions: Any = None
    whole_namespaces: Mapping[str, JsonObject] = {}
    cluster_topologies: tuple[Any, ...] = ()
    naming: Mapping[str, References] = {}
    classes: Mapping[str, int] | None = None
    coming: tuple[Mapping[str, str], ...] = ()

    def nodes_to_come(self) -> Sequence[Mapping[str, str]]:
        """The labels given."""
        return self.coming

    def priorities(self) -> Mapping[str, int] | None:
        """The values given."""
        return self.classes

    def known(self, key: Key[Any]) -> Any:
        """The given value, with what the API server fills in, or the one that applies without a cluster."""
        if isinstance(key, NamespaceKey):  # a class pattern takes five times as long
            labels = self.namespaces.get(key.name) or {NAME_LABEL: key.name}
            given = self.whole_namespaces.get(key.name) or {}
            whole = {
                **given,
                "metadata": {**mapping(given, "metadata"), "name": key.name, "labels": labels},
                "spec": {"finalizers": ["kubernetes"], **mapping(given, "spec")},
                "status": {"phase": "Active", **mapping(given, "status")},
            }
            return Namespace(labels, msgspec.json.encode(whole))
        if isinstance(key, ReferencesKey):
            return self.naming.get(key.topology, NO_REFERENCES)
        return key.without_cluster()

    def answer(self, check: Key[T]) -> T:
        """The answer of `decisions`; an errored answer without them."""
        if self.decisions is None:
            return super().answer(check)
        answer: T = self.decisions.answer(check)
        return answer

    def nodes(self) -> Sequence[Node]:
        """The Nodes given."""
        return self.cluster_nodes

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """The device classes given for this claim or claim template."""
        if claim:
            return self.claims.get((namespace, claim), frozenset())
        return self.claim_templates.get((namespace, template), frozenset())

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names given."""
        return self.extended

    def topologies(self) -> tuple[Any, ...]:
        """The topologies given."""
        return self.cluster_topologies

    def today(self) -> date:
        """The date given."""
        return self.as_of
