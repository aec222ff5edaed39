"""What a rule may ask about the world beyond its request: Namespaces, Nodes, device claims, the date.

Rules are pure, so facts are handed to them. Nodes, claims and topologies are what a watch has brought up to now. What
may have to be read first is looked up by its key: see `policies.engine.lookup`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policies.engine.lookup import FactUnavailable, Key
from policies.engine.request import JsonObject, mapping

if TYPE_CHECKING:
    from typing import Self

    from policies.cel.library.kubernetes.authorizer import Check, CheckAnswer, Decisions
    from policies.topology.topology import Topology

NAME_LABEL = "kubernetes.io/metadata.name"
T = TypeVar("T")


class Namespace(Struct, frozen=True):
    """A Namespace. content: all that `namespaceObject` shows, as JSON."""

    labels: Mapping[str, str]
    content: bytes = b"{}"

    @property
    def decoded(self) -> JsonObject:
        """All that `namespaceObject` shows."""
        decoded: JsonObject = msgspec.json.decode(self.content)
        return decoded


class NamespaceKey(Key[Namespace], Struct, frozen=True):
    """A Namespace by its name."""

    name: str

    @property
    def missing(self) -> str:
        """Says that the Namespace is not known."""
        return f"namespace {self.name!r} is not known yet"


class Taint(Struct, frozen=True):
    """A Node's taint."""

    key: str
    effect: str
    value: str = ""


class Node(Struct, frozen=True):
    """The part of a Node that scheduling rules read."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()


class References(Struct, frozen=True):
    """Workloads that name a topology, as `Job default/train`. incomplete: why there may be more, empty if not."""

    workloads: tuple[str, ...] = ()
    incomplete: str = ""


NO_REFERENCES = References()


class ReferencesKey(Key[References], Struct, frozen=True):
    """The workloads that name a topology."""

    topology: str

    @property
    def missing(self) -> str:
        """Says that the workloads are not known."""
        return f"the workloads that name the topology {self.topology!r} are not known yet"


class Facts(Struct, frozen=True, kw_only=True):
    """All that rules may ask. entries: what was found for one review, by key: values and failures."""

    entries: Mapping[Key[Any], Any] = {}

    def entered(self, key: Key[T], entry: T | FactUnavailable) -> Self:
        """The same facts with one more entry."""
        return replace(self, entries={**self.entries, key: entry})

    def look_up(self, key: Key[T]) -> T:
        """The value of a key. Raises Missing or FactUnavailable."""
        entry = self.entries[key] if self.entries and key in self.entries else self.known(key)
        if isinstance(entry, FactUnavailable):
            raise entry
        value: T = entry
        return value

    def known(self, key: Key[T]) -> T | FactUnavailable:
        """What is known of a key without an entry. Raises Missing."""
        raise NotImplementedError

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a Namespace. Raises Missing or FactUnavailable."""
        return self.look_up(NamespaceKey(name)).labels

    def namespace(self, name: str) -> JsonObject:
        """A Namespace with all that `namespaceObject` shows. Raises Missing or FactUnavailable."""
        return self.look_up(NamespaceKey(name)).decoded

    def references(self, topology: str) -> References:
        """The workloads that name a topology. Raises Missing or FactUnavailable."""
        return self.look_up(ReferencesKey(topology))

    def answer(self, check: Check) -> CheckAnswer:
        """The answer to an authorization check of an expression. Raises Missing."""
        return self.look_up(check)

    def nodes(self) -> Sequence[Node]:
        """The Nodes of the cluster; none where there is no cluster."""
        raise NotImplementedError

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """Device classes that a ResourceClaim, or one made from a ResourceClaimTemplate, asks for; none if not known.

        One of `claim` and `template` is a name, the other empty.
        """
        raise NotImplementedError

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names of the cluster's DeviceClasses, by class."""
        raise NotImplementedError

    def topologies(self) -> tuple[Topology, ...]:
        """The topologies that are objects of the cluster; the same tuple until one of them changes."""
        raise NotImplementedError

    def today(self) -> date:
        """The date in UTC, against which exceptions expire."""
        raise NotImplementedError


class _GivenNamespace(Namespace, frozen=True, kw_only=True):
    """A Namespace as it was given, with what the API server fills in."""

    name: str
    given: JsonObject

    @property
    def decoded(self) -> JsonObject:
        """All that `namespaceObject` shows."""
        return {
            **self.given,
            "metadata": {**mapping(self.given, "metadata"), "name": self.name, "labels": dict(self.labels)},
            "spec": {"finalizers": ["kubernetes"], **mapping(self.given, "spec")},
            "status": {"phase": "Active", **mapping(self.given, "status")},
        }


class StaticFacts(Facts, frozen=True):
    """Facts that are all at hand: no cluster, the ones given on a command line, or those of a test.

    namespaces: labels by name. whole_namespaces: what else is known of some of them. decisions: who answers
    authorization checks; None where there is nobody to ask.
    """

    as_of: date
    namespaces: Mapping[str, Mapping[str, str]] = {}
    cluster_nodes: tuple[Node, ...] = ()
    claims: Mapping[tuple[str, str], frozenset[str]] = {}
    claim_templates: Mapping[tuple[str, str], frozenset[str]] = {}
    extended: Mapping[str, str] = {}
    decisions: Decisions | None = None
    whole_namespaces: Mapping[str, JsonObject] = {}
    cluster_topologies: tuple[Topology, ...] = ()
    naming: Mapping[str, References] = {}

    def known(self, key: Key[Any]) -> Any:
        """What was given, or what holds where there is no cluster."""
        if isinstance(key, NamespaceKey):  # a class pattern takes five times as long
            labels = self.namespaces.get(key.name) or {NAME_LABEL: key.name}
            return _GivenNamespace(labels, name=key.name, given=self.whole_namespaces.get(key.name) or {})
        if isinstance(key, ReferencesKey):
            return self.naming.get(key.topology, NO_REFERENCES)
        return key.without_cluster()

    def answer(self, check: Check) -> CheckAnswer:
        """The answer of whoever decides; an errored one where there is nobody to ask."""
        return super().answer(check) if self.decisions is None else self.decisions.answer(check)

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

    def topologies(self) -> tuple[Topology, ...]:
        """The topologies given."""
        return self.cluster_topologies

    def today(self) -> date:
        """The date given."""
        return self.as_of
