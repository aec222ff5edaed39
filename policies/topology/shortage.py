"""Gangs that no domain of the Nodes that there are can hold, even if nothing else ran there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from policies.engine.facts import Facts, Node
from policies.engine.request import AdmissionRequest
from policies.podspec import Accelerators
from policies.topology.constraint import Constraint, Submission
from policies.topology.gang import demand
from policies.topology.gang.demand import Cluster
from policies.topology.gang.gang import Gang, GangKey, Member, Requirement
from policies.topology.gang.podcount import podcount
from policies.topology.gang.size import excess
from policies.topology.term import alternatives

if TYPE_CHECKING:
    from policies.topology.choice.choice import Shortfall
    from policies.topology.nodes.inventory import Inventory

_KEPT = 256


class Shortage(Struct, frozen=True):
    """A gang that does not fit. constraints: of its templates. problem: in words. wider: a level that could hold it."""

    constraints: tuple[Constraint, ...]
    problem: str
    wider: str

    @property
    def is_required(self) -> bool:
        """Whether its Pods would wait for ever."""
        return self.constraints[0].required is not None


class Shortages:
    """Finds them. It keeps what is known of Nodes for as long as these are the same."""

    def __init__(self, accelerators: Accelerators) -> None:
        self._accelerators = accelerators
        self._nodes: Sequence[Node] = ()
        self._inventory: Inventory | None = None
        self._known: dict[Gang, Shortfall | None] = {}

    def find(self, submission: Submission, request: AdmissionRequest, facts: Facts) -> Iterator[Shortage]:
        """The gangs of what is new in a request that do not fit. Nothing is said where the Nodes are not known."""
        new = [c for c in submission.constraints if c.is_placed and c.is_new]
        if not new or not self._renewed(facts.nodes()):
            return
        for together in gangs(new):
            gang = self._gang(together, request, facts)
            short = None if gang is None else self._shortfall(gang)
            if short is not None:
                yield Shortage(tuple(together), _problem(together[0], short), short.wider)

    def _renewed(self, nodes: Sequence[Node]) -> bool:
        """Whether there is anything to compare with."""
        if nodes is not self._nodes:
            self._nodes, self._inventory = nodes, None
            self._known.clear()
        return any(node.allocatable for node in nodes)

    def _shortfall(self, gang: Gang) -> Shortfall | None:
        from policies.topology.choice.choice import shortfall  # noqa: PLC0415 - loads numpy, which few writes need
        from policies.topology.nodes.inventory import inventory_of  # noqa: PLC0415 - as above

        if self._inventory is None:
            self._inventory = inventory_of(self._nodes)
        if gang not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[gang] = shortfall(self._inventory, gang)
        return self._known[gang]

    def _gang(self, together: Sequence[Constraint], request: AdmissionRequest, facts: Facts) -> Gang | None:
        """The gang of templates with one placement; None if its size or what it asks for is not known."""
        first = together[0]
        topology, kind = first.topology, request.kind.group_kind
        if topology is None:
            return None
        members = []
        for constraint in together:
            count = podcount(kind, request.object or {}, constraint.template.location)
            own = None if count is None else self._member(constraint, count, request, facts)
            if own is None or own.claims:
                return None
            members += [own] if own.count else []
        if not members or excess(members):
            return None
        levels = [placement.level for _, placement in first.placements]
        required, preferred = (
            None if placement is None else topology.position(placement.level)
            for placement in (first.required, first.preferred)
        )
        key = GangKey(request.namespace, *kind, request.display_name)
        return Gang(key, topology.name, demand.tiers(topology, *levels), tuple(members), required, preferred)

    def _member(self, constraint: Constraint, count: int, request: AdmissionRequest, facts: Facts) -> Member | None:
        topology, required = constraint.topology, constraint.required
        if topology is None:
            return None
        named = () if required is None else tuple(domain for domain in required.domains if domain.values)
        pool = () if topology.pool is None else topology.pool.requirements
        terms = tuple(
            tuple(Requirement(one.key, one.operator, one.values) for one in (*term, *pool))
            for term in alternatives(named, topology.requirement) or ((),)
        )
        made = demand.member(
            constraint.template.value, constraint.template.path, count, Cluster(facts, self._accelerators),
            namespace=request.namespace, terms=terms if any(terms) else (),
        )  # fmt: skip
        return made if isinstance(made, Member) else None


def gangs(constraints: Sequence[Constraint]) -> Iterator[list[Constraint]]:
    """The constraints of the same whole placement together: topology, levels and named domains."""
    shared: dict[object, list[Constraint]] = {}
    for constraint in constraints:
        name = constraint.topology.name if constraint.topology else ""
        shared.setdefault((name, constraint.required, constraint.preferred), []).append(constraint)
    yield from shared.values()


def _problem(constraint: Constraint, short: Shortfall) -> str:
    """What cannot be held, and how much could: both numbers."""
    size, required, topology = _size(short.pods, short.accelerators), constraint.required, constraint.topology
    whose = "the largest" if required is None or required.is_open else "it"
    if short.best_pods >= short.pods:
        held = "not all of them find a place together"
    elif short.best_pods:
        gpus = f" ({short.best_accelerators} GPUs)" if short.best_accelerators and whose != "it" else ""
        held = f"{whose}{gpus} holds {short.best_pods}"
    else:
        where = "of it" if whose == "it" else "of one"
        excluded = f"the Pods' node selector, node affinity and tolerations allow no Node {where}"
        held = "no Node has room for one of its Pods" if short.largest else excluded
    if required is None or topology is None:
        held = f"there is room for {short.best_pods}" if short.best_pods else "no Node has room for one of its Pods"
        return f"the Nodes cannot hold {size} even if nothing else ran: {held}"
    called = required.called(topology)
    holder = f"no {called} can" if required.is_open else f"{called} cannot"
    return f"{holder} hold {size} even if nothing else ran: {held}"


def _size(pods: int, accelerators: int) -> str:
    counted = f"{pods} Pod{'' if pods == 1 else 's'}"
    return f"{counted} with {accelerators} GPU{'' if accelerators == 1 else 's'}" if accelerators else counted
