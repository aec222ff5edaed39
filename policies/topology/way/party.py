"""The gangs of a workload, with the templates of their Pods."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from policies.topology.annotation import Template
from policies.topology.constraint import Constraint
from policies.topology.gang import demand
from policies.topology.gang.address import Address, Step
from policies.topology.gang.demand import Cluster, NoDemand
from policies.topology.gang.gang import Gang, GangKey, Member, Tier
from policies.topology.gang.podcount import podcount
from policies.topology.term import Term
from policies.topology.topology import Level, Topology, label_value
from policies.topology.way import replica
from policies.topology.way.scene import Scene

_UNCOUNTED = NoDemand("the number of its Pods is not known")


class Party(Struct, frozen=True):
    """A gang with the constraints of its templates. levels: its tiers, as the topology has them."""

    gang: Gang
    topology: Topology
    levels: tuple[Level, ...]
    constraints: tuple[Constraint, ...]


def parties(constraints: Sequence[Constraint], scene: Scene) -> tuple[list[Party], dict[str, str]]:
    """The gangs of constraints, those with wider required levels first; by path, why other templates have none.

    A template without Pods, which may get some later, goes with the gang that its Pods would belong to.
    """
    obstacles: dict[str, str] = {}
    shares: list[tuple[Constraint, demand.Assignment]] = []
    counts = [count(constraint, scene) for constraint in constraints]
    for constraint, pods in zip(constraints, counts, strict=True):
        # Without any Pods now there may be some later, and the domain is chosen now.
        share = _share(constraint, pods if any(counts) or pods is None else 1, scene)
        if isinstance(share, NoDemand):
            obstacles[constraint.template.path] = share.reason
        else:
            shares.append((constraint, share))
    made = []
    for gang in demand.gangs(_key(scene), (share for _, share in shares)):
        asked = gang.topology, None if gang.required is None else gang.tiers[gang.required]
        made.append(_party(gang, [constraint for constraint, share in shares if _asked(share) == asked]))
    return made, obstacles


def count(constraint: Constraint, scene: Scene) -> int | None:
    """The Pods of a template that belong together, those of the whole replica for one of its Pods; None if unknown."""
    if replica.key(scene) is not None:
        return replica.size(scene)
    return podcount(scene.row.group_kind, scene.object, constraint.template.location)


def demanded(template: Template, scene: Scene) -> Member | NoDemand:
    """What one Pod of a template asks for, without the terms that were written for its placement."""
    return _member(template, 1, scene, ())


def _share(constraint: Constraint, pods: int | None, scene: Scene) -> demand.Assignment | NoDemand:
    """The Pods of a template, with the levels at which a domain is to be chosen for them."""
    template, topology = constraint.template, constraint.topology
    if pods is None or topology is None:
        return _UNCOUNTED
    member = _member(template, pods, scene, constraint.terms)
    if isinstance(member, NoDemand):
        return member
    placements = constraint.required, constraint.preferred
    tiers = demand.tiers(topology, *(placement.level for placement in placements if placement))
    required, preferred = (
        topology.position(placement.level) if placement and is_open else None
        for placement, is_open in zip(placements, (constraint.requires_level, constraint.prefers_level), strict=True)
    )
    return demand.Assignment(member, topology.name, tiers, required, preferred, _near(constraint, topology))


def _near(constraint: Constraint, topology: Topology) -> Address:
    """The domains that a preferred placement names."""
    return tuple(
        Step(
            topology.position(domain.level),
            domain.keys,
            tuple(label_value(domain.level, domain.keys[0], value) for value in domain.values),
        )
        for domain in (constraint.preferred.domains if constraint.preferred else ())
        if domain.values
    )


def _asked(share: demand.Assignment) -> tuple[str, Tier | None]:
    return share.topology, None if share.required is None else share.tiers[share.required]


def _member(template: Template, pods: int, scene: Scene, terms: Sequence[Term]) -> Member | NoDemand:
    cluster = Cluster(scene.facts, scene.options.accelerators)
    return demand.member(
        template.value, template.path, pods, cluster,
        namespace=scene.request.namespace, entry=template.entry, terms=terms,
    )  # fmt: skip


def _party(gang: Gang, constraints: Sequence[Constraint]) -> Party:
    topology = next(constraint.topology for constraint in constraints if constraint.topology is not None)
    by_key = {level.keys: level for level in (*topology.levels, *topology.unions)}
    return Party(gang, topology, tuple(by_key[tier.keys] for tier in gang.tiers), tuple(constraints))


def _key(scene: Scene) -> GangKey:
    """The key of the gangs of a workload. One that has no name yet is told from others by its request."""
    request = scene.request
    if (of_replica := replica.key(scene)) is not None:
        return of_replica
    return GangKey(request.namespace, *request.kind.group_kind, request.name or f"{request.display_name}{request.uid}")
