"""A gang: Pods of a workload that belong in one domain, with all that decides where they fit.

Everything here is immutable, hashable and made of plain values, so that a gang can be the key of a look-up. A template
is read as kube-scheduler will read its Pods. Sources: "Assigning Pods to Nodes", "Taints and Tolerations" and "Pod
Priority and Preemption" in the Kubernetes documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Facts, Taint
from policies.engine.match import SelectorRequirement, Term
from policies.engine.request import JsonObject, mapping
from policies.podspec import DEVICE_CLASS_PREFIX, REQUIRED, Accelerators, claims, node_demand, read_term
from policies.topology.nodes.manifest import Amounts, PodManifest, counted, requests
from policies.topology.topology import Level, Topology
from policies.vocabulary import HOSTNAME


class GangKey(Struct, frozen=True, order=True):
    """The root of a gang. part: the group of a LeaderWorkerSet, the replica of a PodCliqueSet, else empty."""

    namespace: str
    group: str
    kind: str
    name: str
    part: str = ""


class Toleration(Struct, frozen=True):
    """A toleration as Kubernetes has it; an empty key with Exists tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Member(Struct, frozen=True):
    """Pods of one template. path: the template's, as Kubernetes writes field paths; empty for a Pod.

    count: Pods of this template in the gang. requests: what each asks for, one of PODS included. accelerators: how many
    of them each holds, of all accelerator resources together. node_selector: labels that all hold. terms: alternatives
    of which a Node must meet one; empty for every Node (a named domain, a topology's requirement and spec.nodeName are
    in them). priority: of its Pods; None if the class is not known. preempts: whether they may preempt others. claims:
    device claims that the inventory cannot count. alone: whether at most one of these Pods may be on a Node.
    """

    path: str
    count: int
    requests: Amounts
    accelerators: int = 0
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int | None = None
    preempts: bool = True
    claims: tuple[str, ...] = ()
    alone: bool = False


class Gang(Struct, frozen=True):
    """Members that belong in one domain of a level.

    topology: its name. tiers: see `tiers`. required, preferred: positions in `tiers`, or None.
    """

    key: GangKey
    topology: str
    tiers: tuple[Level, ...]
    members: tuple[Member, ...]
    required: int | None = None
    preferred: int | None = None

    @property
    def pods(self) -> int:
        """The Pods of all members."""
        return sum(member.count for member in self.members)

    @property
    def accelerators(self) -> int:
        """The accelerators of all Pods."""
        return sum(member.count * member.accelerators for member in self.members)


class Step(Struct, frozen=True):
    """A domain of one level. keys: the level's; its Nodes have one of them."""

    keys: tuple[str, ...]
    value: str


Address = tuple[Step, ...]
"""A domain, with the ancestors that make it unique, farthest first."""


def tolerates_all(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether tolerations tolerate all of these taints."""
    return all(any(taint.is_tolerated(t.key, t.operator, t.value, t.effect) for t in tolerations) for taint in taints)


MOST_PODS = 1_000_000
"""No cluster has as many: Kubernetes supports 150,000."""

MOST_MEMBERS = 32
MOST_DETAILS = 256
"""The resources and the requirements on Nodes of all members together."""

MOST_AMOUNT = 2**60
"""Of one resource, all Pods together: an exabyte, if it is memory."""

_CHOSEN = "and domains are chosen for at most"


def excess(members: Iterable[Member]) -> str:
    """What is too much of the members, with the bound: `4294967296 Pods, and …`; empty if nothing is."""
    given = tuple(members)
    if len(given) > MOST_MEMBERS:
        return f"{len(given)} templates, {_CHOSEN} {MOST_MEMBERS}"
    details = sum(len(one.requests) + len(one.node_selector) + sum(map(len, one.terms)) for one in given)
    if details > MOST_DETAILS:
        return f"{details} resources and requirements on Nodes, {_CHOSEN} {MOST_DETAILS}"
    pods = sum(member.count for member in given)
    if pods > MOST_PODS:
        return f"{pods} Pods, {_CHOSEN} {MOST_PODS}"
    sums: Counter[str] = Counter()
    for member in given:
        for name, amount in member.requests:
            sums[name] += member.count * amount
    large = min((name for name, amount in sums.items() if amount > MOST_AMOUNT), default="")
    return f"requests for more than {MOST_AMOUNT} of {large}, {_CHOSEN} that" if large else ""


_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def tiers(topology: Topology, *levels: Level | None) -> tuple[Level, ...]:
    """The levels of a topology, farthest first, each under the name that people call it.

    Of `levels`, a union takes the place of the level of its first key.
    """
    named = {topology.position(level): level for level in levels if level is not None}
    return tuple(
        replace(level, name=topology.called(level))
        for level in (named.get(position, level) for position, level in enumerate(topology.levels))
    )


def member(
    template: JsonObject,
    path: str,
    count: int,
    facts: Facts,
    accelerators: Accelerators,
    *,
    namespace: str = "",
    terms: Sequence[Sequence[SelectorRequirement]] = (),
    asked: Amounts | None = None,
) -> Member | str:
    """The demand of a template's Pods, or why there is none, to continue a sentence about the template. Never raises.

    facts: of the cluster: its device classes, claims and PriorityClasses. terms: alternatives of which a Node must meet
    one as well: named domains and the requirement of a topology. asked:
    what each Pod asks for, where that is known.
    """
    spec = mapping(template, "spec")
    try:
        selector = _map(spec.get("nodeSelector"), "nodeSelector")
        amounts = requests(msgspec.convert(template, PodManifest, strict=False)) if asked is None else asked
        # Claims for devices that cannot be counted: unknown ones, and those for accelerators. One for something else
        # keeps no Pod from a domain as far as is known.
        uncounted = [name for name, _ in amounts if name.startswith(DEVICE_CLASS_PREFIX)]
        for claim, of_template in claims(spec):
            classes = facts.claim_classes(namespace, claim, of_template)
            if not classes or not classes.isdisjoint(accelerators.device_classes):
                uncounted.append(claim or of_template)
        return Member(
            path,
            count,
            amounts,
            accelerators=counted(amounts, lambda name: accelerators.includes(name, facts)),
            node_selector=tuple((k, _checked(selector[k], "a value of its nodeSelector")) for k in sorted(selector)),
            terms=_terms(spec, terms),
            tolerations=_tolerations(spec.get("tolerations")),
            priority=_priority(spec, facts),
            preempts=spec.get("preemptionPolicy") != "Never",
            claims=tuple(dict.fromkeys(uncounted)),
            alone=_is_alone(template, spec),
        )
    except (ValueError, TypeError) as error:
        return f"it cannot be read: {error}"


def _priority(spec: JsonObject, facts: Facts) -> int | None:
    priority, name = spec.get("priority"), spec.get("priorityClassName") or ""
    if isinstance(priority, int):
        return priority
    if name in _SYSTEM:
        return _SYSTEM[name]
    priorities = facts.priorities()
    if priorities is None:
        return None
    return priorities.get(name) if name else priorities.get("", 0)


def _terms(spec: JsonObject, terms: Sequence[Sequence[SelectorRequirement]]) -> tuple[Term, ...]:
    """The terms of which a Node must meet one: the user's, each combined with each of `terms`, and the Node's name."""
    written = node_demand(spec).terms
    if None in (written or ()):
        raise TypeError("a term of its nodeAffinity is malformed")
    if written is not None and not any(written):
        raise ValueError("its nodeAffinity matches no Node")
    own = [term for term in written or () if term]
    alternatives = [(*mine, *given) for mine in own or [()] for given in terms or [()]]
    if name := spec.get("nodeName"):
        here = SelectorRequirement("", "In", (_checked(name, "its nodeName"),))
        alternatives = [(*alternative, here) for alternative in alternatives]
    return tuple(alternative for alternative in alternatives if alternative)


def _map(value: Any, what: str) -> JsonObject:
    if not isinstance(value, dict | None):
        raise TypeError(f"its {what} is no map")
    return value or {}


def _is_alone(template: JsonObject, spec: JsonObject) -> bool:
    """Whether no second Pod of a template can be on a Node: it takes a port of the Node, or keeps away from itself."""
    containers = [one for field in ("containers", "initContainers") for one in spec.get(field) or ()]
    ports = [port for one in containers if isinstance(one, dict) for port in one.get("ports") or ()]
    if any(isinstance(port, dict) and (port.get("hostPort") or spec.get("hostNetwork")) for port in ports):
        return True
    labels = mapping(mapping(template, "metadata"), "labels")
    texts = {key: value for key, value in labels.items() if isinstance(value, str)}
    for term in mapping(mapping(spec, "affinity"), "podAntiAffinity").get(REQUIRED) or ():
        selector = term.get("labelSelector") if isinstance(term, dict) and term.get("topologyKey") == HOSTNAME else None
        if not isinstance(selector, dict):  # one that is missing selects none
            continue
        equal = all(labels.get(key) == value for key, value in mapping(selector, "matchLabels").items())
        expressions = read_term({"matchExpressions": selector.get("matchExpressions")})
        if equal and expressions is not None and all(one.matches(texts) for one in expressions):
            return True
    return False


def _tolerations(written: Any) -> tuple[Toleration, ...]:
    if not isinstance(written, list | None):
        raise TypeError("its tolerations are no list")
    made = []
    for toleration in written or ():
        if not isinstance(toleration, dict):
            raise TypeError("a toleration is no map")
        fields = {field: toleration.get(field) or "" for field in ("key", "operator", "value", "effect")}
        fields["operator"] = fields["operator"] or "Equal"
        made.append(Toleration(**{field: _checked(text, "a field of a toleration") for field, text in fields.items()}))
    return tuple(made)


def _checked(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is no text")
    return value
