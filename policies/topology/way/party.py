"""The gangs of a workload: the templates that belong in one domain of a level, with their Pods."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from policies.topology.affinity import with_terms, without_terms
from policies.topology.annotation import Template
from policies.topology.constraint import Constraint
from policies.topology.gang import demand
from policies.topology.gang.gang import Gang, GangKey, Member, Tier
from policies.topology.gang.podcount import podcount
from policies.topology.placement import Placement
from policies.topology.term import Term
from policies.topology.topology import Level, Topology
from policies.topology.way.scene import Scene


class Party(Struct, frozen=True):
    """A gang with the constraints of its templates. levels: its tiers, as the topology has them."""

    gang: Gang
    topology: Topology
    levels: tuple[Level, ...]
    constraints: tuple[Constraint, ...]


def parties(constraints: Sequence[Constraint], scene: Scene) -> list[Party]:
    """The gangs of constraints, those with wider required levels first.

    Templates with the same required placement form one gang. Constraints without a topology, or whose numbers of Pods
    are not known, are left out.
    """
    groups: dict[tuple[Topology, Placement | None], list[tuple[Constraint, Member]]] = {}
    for constraint in constraints:
        member = _member(constraint, scene)
        if constraint.topology is not None and member is not None:
            groups.setdefault((constraint.topology, constraint.required), []).append((constraint, member))
    made = [_party(*asked, group, scene) for asked, group in groups.items()]
    return sorted(made, key=lambda p: len(p.levels) if p.gang.required is None else p.gang.required)


def demanded(template: Template, terms: Sequence[Term] = (), count: int = 0) -> Member:
    """So many Pods of a template, as the user wrote it, that also need one of some terms."""
    affinity, _ = with_terms(without_terms(template.affinity, template.entry), terms, ())
    value = {**template.value, "spec": {**template.spec, "affinity": affinity}}
    return demand.member(value, template.path, count)


def _member(constraint: Constraint, scene: Scene) -> Member | None:
    count = podcount(scene.row.group_kind, scene.object, constraint.template.location)
    return None if count is None else demanded(constraint.template, constraint.terms, count)


def _party(
    topology: Topology, required: Placement | None, group: Sequence[tuple[Constraint, Member]], scene: Scene
) -> Party:
    """The gang of templates with the same topology and required placement."""
    constraints = tuple(constraint for constraint, _ in group)
    levels = list(topology.levels)
    preferred = [c.preferred.level for c in constraints if c.preferred is not None and c.prefers_level]
    for level in (*preferred, *([required.level] if required else ())):
        levels[topology.position(level)] = level  # a union takes the place of its first level
    gang = Gang(
        _key(scene), topology.name,
        tuple(Tier(topology.called(level), level.keys, level.distinct) for level in levels),
        tuple(member for _, member in group),
        topology.position(required.level) if required is not None and required.is_open else None,
        max(map(topology.position, preferred), default=None),
    )  # fmt: skip
    return Party(gang, topology, tuple(levels), constraints)


def _key(scene: Scene) -> GangKey:
    """The key of the gangs of a workload. One that has no name yet is told from others by its request."""
    request = scene.request
    group, kind = request.kind.group_kind
    return GangKey(request.namespace, group, kind, request.name or f"{request.display_name}{request.uid}")
