"""What is written into a Pod when its gate opens, and what an opened Pod tells of where it belongs.

Source: "Pod Scheduling Readiness" and "Mutable Pod scheduling directives" in the Kubernetes documentation: of a gated
Pod the node affinity may be made narrower, each of its terms for itself, and preferences may be set freely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from policies import podspec
from policies.engine.match import EVERYTHING, SelectorRequirement, Term
from policies.engine.request import JsonObject, as_map, mapping
from policies.engine.violation import listed
from policies.topology.gang import Address, tiers
from policies.topology.placement import (
    GATE,
    PLACEMENT,
    PREFERRED,
    REQUIRED,
    TOPOLOGY,
    Placement,
    PlacementError,
    alternatives,
    meets,
    parse,
    to_json,
    with_terms,
)
from policies.topology.topology import Catalog, Level, Topology, in_cliques, natural
from policies.vocabulary import HOSTNAME

_MOST_SHOWN: Final = 8


def words(address: Address) -> str:
    """A domain by the short names of its keys, as people write it: `superpod=2,rack=12`."""
    return ",".join(f"{step.keys[0].rpartition('/')[2]}={step.value}" for step in address) or "the cluster"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 Pod`, `2 Pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size(pods: int, accelerators: int) -> str:
    """The size of a gang: `8 Pods with 64 GPUs`."""
    return counted(pods, "Pod") + (f" with {counted(accelerators, 'GPU')}" if accelerators else "")


def spread(domains: Iterable[Address]) -> str:
    """How Pods are spread over nearer domains: `: 8 in rack=1, 8 in rack=2`; empty if they are in one."""
    counts = Counter(words(address) for address in domains if address)
    if len(counts) < 2:
        return ""
    ordered = sorted(counts.items(), key=lambda item: natural(item[0]))
    return f": {listed([f'{count} in {name}' for name, count in ordered], _MOST_SHOWN)}"


_WEIGHT = 100


class Goal(Struct, frozen=True):
    """A whole placement. tiers: the topology's levels; required, preferred: positions in them.

    nodes: alternatives of which each Node of the placement meets one: named domains, the topology's requirement and its
    pool. near: the same for the domains that are named as preferred, then for those around them; empty for none.
    flavors: the topology's requirement, in each way in which Nodes may be labelled.
    """

    topology: Topology
    tiers: tuple[Level, ...]
    required: int | None
    preferred: int | None
    nodes: tuple[tuple[SelectorRequirement, ...], ...]
    near: tuple[tuple[tuple[SelectorRequirement, ...], ...], ...] = ()
    flavors: tuple[tuple[SelectorRequirement, ...], ...] = ()

    def nested(self, other: Goal) -> int | None:
        """The required level if its domain has to contain that of the other, or to be inside it; else None."""
        is_nested = self.topology == other.topology and other.required not in (None, self.required)
        return self.required if is_nested else None

    @property
    def level(self) -> str:
        """The name of the required level, else of the preferred one."""
        position = self.preferred if self.required is None else self.required
        return "" if position is None else self.tiers[position].name


def goal(annotations: Mapping[str, str], catalog: Catalog) -> Goal | str:
    """The placement that annotations of a Pod name, or why there is none."""
    name = annotations.get(TOPOLOGY, "").strip()
    topology = catalog.find(name)
    if topology is None:
        return f'topology "{name}" is not known: create it again, or delete the workload and create it with another one'
    placements: list[Placement | None] = []
    for key in (REQUIRED, PREFERRED):
        text = annotations.get(key)
        try:
            placements.append(None if text is None else parse(text, topology))
        except PlacementError as error:
            return f'{key} "{text}" {error.problem} Delete the workload and create it with another placement'
    required, preferred = placements
    levels = [placement.level for placement in placements if placement is not None]
    named_terms = alternatives(() if required is None else required.named, topology.requirement)
    named = () if preferred is None else preferred.named
    near = (alternatives(named[:count], EVERYTHING) for count in range(len(named), 0, -1))
    pool = () if topology.pool is None else topology.pool.requirements
    return Goal(
        topology,
        tiers(topology, *levels),
        None if required is None else topology.position(required.level),
        None if preferred is None else topology.position(preferred.level),
        tuple((*one, *pool) for one in named_terms or ((),)),
        tuple(near),
        alternatives((), topology.requirement),
    )


class Seat(Struct, frozen=True):
    """Where one Pod belongs. labels: of its packed Node; empty without one. domain: the gang's, by keys and values.

    inner: the nearer domain that it shares with its neighbours in rank. is_fixed: whether it has to be this Node.
    """

    labels: Mapping[str, str]
    domain: Address = ()
    inner: Address = ()
    is_fixed: bool = False


class Opening(Struct, frozen=True):
    """A Pod whose gate is to be opened. content: of the Pod. cliques: of the NVL Domains where it belongs."""

    namespace: str
    name: str
    uid: str
    content: JsonObject
    goal: Goal
    seat: Seat
    cliques: Mapping[str, Sequence[str]]
    sentence: str

    @property
    def patch(self) -> list[JsonObject]:
        """The JSON Patch that opens the gate and writes where the Pod belongs. It fails where the Pod has changed.

        It is made as it is sent, so that a look at a large gang does not wait for all of them.
        """
        pod, goal, seat, cliques = self.content, self.goal, self.seat, self.cliques
        gates = [gate.get("name") for gate in pod["spec"]["schedulingGates"]]
        at = f"/spec/schedulingGates/{gates.index(GATE)}"
        # The topology's requirement and pool, in the words of the packed Node.
        own = next((one for one in goal.flavors if meets(seat.labels, [one])), goal.flavors[0] if goal.flavors else ())
        pool = () if goal.topology.pool is None else goal.topology.pool.requirements
        host = (SelectorRequirement(HOSTNAME, "In", (seat.labels[HOSTNAME],)),) if HOSTNAME in seat.labels else ()
        domain = _requirements(seat.domain if goal.required is not None else (), seat.labels, cliques)
        need = (*domain, *own, *pool, *(host if seat.is_fixed else ()))
        affinity = dict(with_terms(mapping(pod["spec"], "affinity"), [need] if need else [], []))
        node = dict(mapping(affinity, "nodeAffinity"))
        inner = _requirements(seat.inner or (seat.domain if goal.required is None else ()), seat.labels, cliques)
        wishes = [{"weight": _WEIGHT, "preference": {"matchExpressions": to_json(one)}} for one in (inner, host) if one]
        if wishes:
            node[podspec.PREFERRED] = [*(node.get(podspec.PREFERRED) or []), *wishes]
        affinity["nodeAffinity"] = node
        key = PLACEMENT.replace("/", "~1")
        return [
            {"op": "test", "path": "/metadata/uid", "value": pod["metadata"]["uid"]},
            {"op": "test", "path": f"{at}/name", "value": GATE},
            {"op": "remove", "path": at},
            *([{"op": "add", "path": "/spec/affinity", "value": affinity}] if node else []),
            {"op": "add", "path": f"/metadata/annotations/{key}", "value": self.sentence},
        ]


def packed(pod: JsonObject) -> str:
    """The hostname of the Node on which an opened Pod was packed, by its affinity; empty if it names none."""
    wishes = mapping(mapping(mapping(pod, "spec"), "affinity"), "nodeAffinity").get(podspec.PREFERRED)
    for wish in reversed(wishes if isinstance(wishes, list) else []):
        expressions = mapping(as_map(wish), "preference").get("matchExpressions")
        for one in expressions if isinstance(expressions, list) else []:
            if isinstance(one, dict) and one.get("key") == HOSTNAME and one.get("operator") == "In":
                return str((one.get("values") or [""])[0])
    return ""


def is_fixed(pod: JsonObject) -> bool:
    """Whether an opened Pod has to run on its packed Node."""
    terms = podspec.node_demand(mapping(pod, "spec")).terms
    return bool(terms) and all(any(one.key == HOSTNAME for one in term or ()) for term in terms or ())


def _requirements(address: Address, labels: Mapping[str, str], cliques: Mapping[str, Sequence[str]]) -> Term:
    """A domain by the keys that a Pod's packed Node carries. An NVL Domain is written as its cliques."""
    keyed = [(next((key for key in step.keys if key in labels), step.keys[0]), step.value) for step in address]
    made = (SelectorRequirement(key, "In", (value,)) for key, value in keyed)
    return tuple(in_cliques(requirement, cliques) for requirement in made)
