"""What a rule may ask about the world beyond its request: Namespaces, Nodes, device claims, the date.

Rules are pure, so facts are handed to them. A fact that is not at hand yet is raised as `UnknownFact`; whoever runs the
engine fetches it and evaluates again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from policies.engine.request import JsonObject, mapping

if TYPE_CHECKING:
    from policies.cel.library.authorizer import Answer, Check, Decisions
    from policies.topology.topology import Topology

NAME_LABEL = "kubernetes.io/metadata.name"


class NeededLookUp(Exception):  # noqa: N818 - a request for a look-up, not an error
    """Something has to be found out before the evaluation can be made: find it, and evaluate again."""


class UnknownFact(NeededLookUp):
    """A Namespace, or only its labels, is needed and not known yet."""

    def __init__(self, namespace: str) -> None:
        super().__init__(f"namespace {namespace!r} is not known yet")
        self.namespace = namespace


class UnknownReferences(NeededLookUp):
    """The workloads that name a topology are needed and not known yet."""

    def __init__(self, topology: str) -> None:
        super().__init__(f"the workloads that name the topology {topology!r} are not known yet")
        self.topology = topology


class FactUnavailable(Exception):  # noqa: N818 - it names the state; the rule that asked is what failed
    """A fact could not be had; the rule that needs it has failed. The text says which fact and why."""


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


class Facts(Protocol):
    """The look-ups that rules may make."""

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a Namespace. Raises UnknownFact or FactUnavailable."""
        ...

    def namespace(self, name: str) -> JsonObject:
        """A Namespace with all that `namespaceObject` shows. Raises UnknownFact or FactUnavailable."""
        ...

    def nodes(self) -> Sequence[Node]:
        """The Nodes of the cluster; none where there is no cluster."""
        ...

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """Device classes that a ResourceClaim, or one made from a ResourceClaimTemplate, asks for; none if not known.

        One of `claim` and `template` is a name, the other empty.
        """
        ...

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names of the cluster's DeviceClasses, by class."""
        ...

    def topologies(self) -> tuple[Topology, ...]:
        """The topologies that are objects of the cluster; the same tuple until one of them changes."""
        ...

    def references(self, topology: str) -> References:
        """The workloads that name a topology. Raises NeededLookUp."""
        ...

    def today(self) -> date:
        """The date in UTC, against which exceptions expire."""
        ...

    def answer(self, check: Check) -> Answer:
        """The answer to an authorization check of an expression. Raises UnansweredCheck."""
        ...

    def give_up(self, needed: NeededLookUp) -> None:
        """Raise FactUnavailable for what was looked for in vain; return if it was not looked for yet."""
        ...


class StaticFacts(Struct, frozen=True):
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

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels given for this Namespace, else the one that the API server puts on all of them."""
        return self.namespaces.get(name) or {NAME_LABEL: name}

    def namespace(self, name: str) -> JsonObject:
        """The Namespace given, with its labels and what the API server fills in."""
        given = self.whole_namespaces.get(name) or {}
        return {
            **given,
            "metadata": {**mapping(given, "metadata"), "name": name, "labels": dict(self.namespace_labels(name))},
            "spec": {"finalizers": ["kubernetes"], **mapping(given, "spec")},
            "status": {"phase": "Active", **mapping(given, "status")},
        }

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

    def references(self, topology: str) -> References:
        """The workloads given that name a topology."""
        return self.naming.get(topology, NO_REFERENCES)

    def today(self) -> date:
        """The date given."""
        return self.as_of

    def answer(self, check: Check) -> Answer:
        """The answer of whoever decides; an errored one where there is nobody to ask."""
        if self.decisions is not None:
            return self.decisions.answer(check)
        from policies.cel.library.authorizer import Answer  # noqa: PLC0415 - most commands need no CEL

        return Answer(allowed=False, error="there is no cluster to ask")

    def give_up(self, needed: NeededLookUp) -> None:
        """Nothing is ever looked for."""
