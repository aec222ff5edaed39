"""What the templates of a workload ask for: the members of its gangs.

Sources: "Assigning Pods to Nodes", "Taints and Tolerations" and "Pod Priority and Preemption" in the Kubernetes
documentation. A template is read as kube-scheduler will read its Pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Facts
from policies.engine.request import JsonObject, mapping
from policies.objects.accelerator import DEVICE_CLASS_PREFIX, Accelerators, claims
from policies.topology.affinity import (
    NOTHING,
    REQUIRED,
    RecordEntry,
    node_affinity,
    selector_terms,
    with_terms,
    without_terms,
)
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Amounts, Gang, GangKey, Member, Requirement, Tier, Toleration
from policies.topology.nodes.manifest import PodManifest
from policies.topology.nodes.requests import requests
from policies.topology.term import Term
from policies.topology.topology import Level, Topology

# SUNK lists each GPU under a second name as well, so that Slurm can hold it without its device.
_SECOND_NAMES = "sunk.coreweave.com/"
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})

Terms = tuple[tuple[Requirement, ...], ...]


class Cluster(Struct, frozen=True):
    """What a cluster says about the demand of Pods. facts: its device classes, claims and PriorityClasses."""

    facts: Facts
    accelerators: Accelerators = Accelerators()


class NoDemand(Struct, frozen=True):
    """Why a template has no demand that could be placed. reason: continues a sentence about the template."""

    reason: str


class _MalformedError(ValueError):
    """A template is not what Kubernetes takes. The text says what is wrong."""


class Assignment(Struct, frozen=True):
    """A member with the levels at which it is placed: positions in `tiers`, or None.

    topology: its name. near: see `Gang`.
    """

    member: Member
    topology: str
    tiers: tuple[Tier, ...]
    required: int | None = None
    preferred: int | None = None
    near: Address = ()


def tiers(topology: Topology, *levels: Level | None) -> tuple[Tier, ...]:
    """The levels of a topology, farthest first. Of `levels`, a union takes the place of the level of its first key."""
    named = {topology.position(level): level for level in levels if level is not None}
    return tuple(
        Tier(topology.called(level), level.keys, level.distinct)
        for level in (named.get(position, level) for position, level in enumerate(topology.levels))
    )


def gangs(key: GangKey, assignments: Iterable[Assignment]) -> tuple[Gang, ...]:
    """The gangs of a workload: one for each topology and required level.

    Wider required levels come first, those without one last. Members with no Pods are left out. A gang prefers the
    nearest level that one of its members prefers.
    """
    shared: dict[Any, list[Assignment]] = {}
    for assignment in assignments:
        if assignment.member.count:
            shared.setdefault((assignment.topology, _required(assignment)), []).append(assignment)
    made = [_gang(key, together) for together in shared.values()]
    return tuple(sorted(made, key=lambda gang: (gang.required is None, gang.required or 0)))


def member(
    template: JsonObject,
    path: str,
    count: int,
    cluster: Cluster,
    *,
    namespace: str = "",
    entry: RecordEntry = NOTHING,
    terms: Sequence[Term] = (),
) -> Member | NoDemand:
    """The demand of a template's Pods, or why there is none. It never raises, whatever the template is.

    entry: the recorded terms, which are left out of the demand. terms: alternatives of which a Node must meet one as
    well: named domains and the requirement of a topology.
    """
    spec = mapping(template, "spec")
    try:
        amounts = requests(msgspec.convert(template, PodManifest, strict=False))
        return Member(
            path,
            count,
            amounts,
            accelerators=_accelerators(amounts, cluster),
            node_selector=_labels(spec.get("nodeSelector")),
            terms=_terms(spec, entry, terms),
            tolerations=_tolerations(spec.get("tolerations")),
            priority=_priority(spec, cluster.facts),
            preempts=spec.get("preemptionPolicy") != "Never",
            claims=_claims(spec, amounts, namespace, cluster),
        )
    except (ValueError, TypeError) as error:
        return NoDemand(f"it cannot be read: {error}")


def _required(assignment: Assignment) -> Tier | None:
    return None if assignment.required is None else assignment.tiers[assignment.required]


def _gang(key: GangKey, together: Sequence[Assignment]) -> Gang:
    nearest = max(together, key=lambda assignment: -1 if assignment.preferred is None else assignment.preferred)
    members = tuple(assignment.member for assignment in together)
    near = next((assignment.near for assignment in together if assignment.near), ())
    return Gang(key, nearest.topology, nearest.tiers, members, nearest.required, nearest.preferred, near)


def _accelerators(amounts: Amounts, cluster: Cluster) -> int:
    """How many accelerators a Pod holds, of all resources together."""
    held = [(name, amount) for name, amount in amounts if "/" in name]
    held = [(name, amount) for name, amount in held if cluster.accelerators.includes(name, cluster.facts)]
    second = sum(amount for name, amount in held if name.startswith(_SECOND_NAMES))
    return max(second, sum(amount for _, amount in held) - second)


def _claims(spec: JsonObject, amounts: Amounts, namespace: str, cluster: Cluster) -> tuple[str, ...]:
    """The claims for devices that cannot be counted: unknown ones, and those for accelerators.

    A claim for something else keeps no Pod from a domain as far as is known, so it does not count.
    """
    uncounted = [name for name, _ in amounts if name.startswith(DEVICE_CLASS_PREFIX)]
    for claim, template in claims(spec):
        classes = cluster.facts.claim_classes(namespace, claim, template)
        if not classes or not classes.isdisjoint(cluster.accelerators.device_classes):
            uncounted.append(claim or template)
    return tuple(dict.fromkeys(uncounted))


def _priority(spec: JsonObject, facts: Facts) -> int | None:
    """The priority of the Pods; None if their class is not known."""
    priority, name = spec.get("priority"), spec.get("priorityClassName") or ""
    if isinstance(priority, int):
        return priority
    if name in _SYSTEM:
        return _SYSTEM[name]
    priorities = facts.priorities()
    if priorities is None:
        return None
    return priorities.get(name) if name else priorities.get("", 0)


def _labels(selector: Any) -> tuple[tuple[str, str], ...]:
    """A node selector, sorted by key."""
    if not isinstance(selector, dict | None):
        raise _MalformedError("its nodeSelector is no map")
    return tuple(
        sorted((key, _checked(value, "a value of its nodeSelector")) for key, value in (selector or {}).items())
    )


def _terms(spec: JsonObject, entry: RecordEntry, terms: Sequence[Term]) -> Terms:
    """The terms of which a Node must meet one: the user's, each combined with each of `terms`, and the Node's name."""
    own = without_terms(spec.get("affinity"), entry)
    if node_affinity(own) is None:
        raise _MalformedError("its nodeAffinity is no map")
    affinity, _ = with_terms(own, terms, ())
    alternatives = [made for written in selector_terms(affinity) if (made := _term(written))]
    if not alternatives and (node_affinity(affinity) or {}).get(REQUIRED) is not None:
        raise _MalformedError("its nodeAffinity matches no Node")
    name = spec.get("nodeName")
    if not name:
        return tuple(alternatives)
    node = Requirement("", "In", (_checked(name, "its nodeName"),))
    return tuple((*alternative, node) for alternative in alternatives or [()])


def _term(written: Any) -> tuple[Requirement, ...]:
    """The requirements of a term. Without any it matches nothing."""
    if not isinstance(written, dict):
        raise _MalformedError("a term of its nodeAffinity is no map")
    expressions = _requirements(written.get("matchExpressions"))
    fields = _requirements(written.get("matchFields"))
    if any(requirement.key != "metadata.name" for requirement in fields):
        raise _MalformedError("a matchFields of its nodeAffinity names another field than metadata.name")
    return (*expressions, *(replace(requirement, key="") for requirement in fields))


def _requirements(written: Any) -> list[Requirement]:
    if not isinstance(written, list | None):
        raise _MalformedError("a term of its nodeAffinity is malformed")
    made = []
    for requirement in written or ():
        fields = requirement if isinstance(requirement, dict) else {}
        key, operator, values = fields.get("key"), fields.get("operator"), fields.get("values")
        if not isinstance(key, str) or operator not in _OPERATORS or not isinstance(values, list | None):
            raise _MalformedError("a requirement of its nodeAffinity is malformed")
        what = "a value of its nodeAffinity"
        made.append(Requirement(key, operator, tuple(_checked(value, what) for value in values or ())))
    return made


def _tolerations(written: Any) -> tuple[Toleration, ...]:
    if not isinstance(written, list | None):
        raise _MalformedError("its tolerations are no list")
    made = []
    for toleration in written or ():
        if not isinstance(toleration, dict):
            raise _MalformedError("a toleration is no map")
        fields = {field: toleration.get(field) or "" for field in ("key", "operator", "value", "effect")}
        fields["operator"] = fields["operator"] or "Equal"
        made.append(Toleration(**{field: _checked(text, "a field of a toleration") for field, text in fields.items()}))
    return tuple(made)


def _checked(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise _MalformedError(f"{what} is no text")
    return value
