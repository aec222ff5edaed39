"""The way `domain`: a domain is chosen for each gang and written as node affinity."""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine.lookup import FactUnavailable
from policies.engine.rule import MutationRefusedError
from policies.objects.fieldpath import Location
from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.constraint import Constraint
from policies.topology.gang.address import Address
from policies.topology.gang.podcount import podcount
from policies.topology.placement import Domain
from policies.topology.term import alternatives, steps
from policies.topology.way import notice, replica
from policies.topology.way.assignment import Assignment, Edit, Plan
from policies.topology.way.party import Party, parties
from policies.topology.way.scene import Scene

_SUSPEND: Location = ("spec", "suspend")
# Kinds from which any number of workloads are made, each a gang of its own.
_PATTERNS = frozenset(("trainer.kubeflow.org", f"{name}TrainingRuntime") for name in ("", "Cluster"))


def assign(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """The domains of these constraints' gangs; without those for which none could be chosen.

    Raises MutationRefusedError if a gang does not fit and the options say so.
    """
    if scene.row.group_kind in _PATTERNS:
        return Plan(reasons={c.template.path: f"a {scene.row.kind} is for many gangs" for c in constraints})
    gangs, obstacles = parties(constraints, scene)
    plan = Plan(reasons=obstacles)
    for party, choice in zip(gangs, choices(gangs, scene), strict=True):
        plan = plan.joined(_assigned(party, choice, scene))
    return plan


def growth(scene: Scene) -> Plan:
    """The warnings about gangs that have got more Pods, which stay in their domain, than it has room for now."""
    grown = [constraint for constraint in scene.submission.constraints if _has_grown(constraint, scene)]
    gangs, _ = parties(grown, scene)
    kept = [party.constraints[0].template.entry.domain for party in gangs]
    told = [
        line
        for party, choice in zip(gangs, choices(gangs, scene, kept), strict=True)
        for line in notice.grown(notice.Told(party, choice, scene.request.kind.kind))
    ]
    return Plan(warnings=tuple(told))


def _has_grown(constraint: Constraint, scene: Scene) -> bool:
    """Whether an update gives more Pods to a template that keeps its domain."""
    template, earlier = constraint.template, constraint.earlier
    if earlier is None or not template.entry.domain or template.entry.domain != earlier.entry.domain:
        return False
    now, before = (
        podcount(scene.row.group_kind, obj or {}, template.location) for obj in (scene.object, scene.request.old_object)
    )
    return constraint.is_open and now is not None and before is not None and now > before


def choices(gangs: Sequence[Party], scene: Scene, kept: Sequence[Address] = ()) -> Sequence[Choice]:
    """The choice for each gang. For a suspended workload, which is placed later, nothing is promised."""
    if not gangs:
        return ()
    forgotten = bool(scene.request.dry_run) or scene.submission.is_suspended
    try:
        return scene.facts.look_up(ChoiceKey(tuple(party.gang for party in gangs), tuple(kept), forgotten))
    except FactUnavailable as unavailable:
        return tuple(Choice("unknown", str(unavailable)) for _ in gangs)


def _assigned(party: Party, choice: Choice, scene: Scene) -> Plan:
    """The plan for one gang."""
    told = notice.Told(party, choice, scene.request.kind.kind)
    paths = [constraint.template.path for constraint in party.constraints]
    if choice.outcome == "unknown":
        return Plan(reasons=dict.fromkeys(paths, choice.reason))
    lacks_room = party.gang.required is not None and choice.outcome in ("full", "never")
    if lacks_room and _is_refused(choice, scene):
        raise MutationRefusedError(notice.refusal(told))
    waits = lacks_room and _waits(choice, scene)
    if lacks_room and choice.outcome == "never" and not waits:
        return Plan(reasons=dict.fromkeys(paths, notice.never(told)))
    if waits or scene.submission.is_suspended:
        edits: tuple[Edit, ...] = ((_SUSPEND, True),) if waits else ()
        later = {constraint.template.path: _later(constraint) for constraint in party.constraints}
        return Plan(later, warnings=notice.later(told, waits=waits), edits=edits)
    chosen = {constraint.template.path: _chosen(constraint, party, choice) for constraint in party.constraints}
    return Plan(chosen, warnings=notice.chosen(told), decisions=notice.decision(told))


def _is_refused(choice: Choice, scene: Scene) -> bool:
    """Whether a gang without room is refused. A worker follows its leader, which was not."""
    options = scene.options
    may_be = options.refuses and not replica.follows(scene)
    return may_be and (options.autoscaling == "off" if choice.outcome == "never" else options.full == "refuse")


def _waits(choice: Choice, scene: Scene) -> bool:
    """Whether a gang without room is kept suspended.

    One that no domain can hold is so at its resume, when no Pod affinity can be written any more. At its creation its
    Pods may make an autoscaler add Nodes.
    """
    may_wait = scene.options.full == "wait" and scene.row.affinity == "suspended"
    return may_wait and (choice.outcome == "full" or scene.submission.is_resumed)


def _later(constraint: Constraint) -> Assignment:
    """What a template gets whose domain is chosen later: no more than the domains that its placement names."""
    return Assignment("", () if constraint.requires_level else constraint.terms, constraint.own_preferences)


def _chosen(constraint: Constraint, party: Party, choice: Choice) -> Assignment:
    """What a template gets for a choice. Domains that its own placements name stay beside those that are chosen."""
    required, topology = constraint.required, party.topology
    terms, preferences = constraint.terms, constraint.preferences
    if required is not None and required.is_open and choice.required:
        named = {topology.position(domain.level): domain for domain in required.domains if domain.values}
        chosen = named | _domains(choice.required, party)
        terms = alternatives([chosen[tier] for tier in sorted(chosen)], topology.requirement)
    if constraint.prefers_level:
        nearest = [_domains(address, party) for address in choice.preferred]
        floor = _domains(choice.required, party)
        below = [[domain for tier, domain in chosen.items() if tier not in floor] for chosen in nearest]
        preferences = steps(topology, [domains for domains in below if domains]) or constraint.own_preferences
    return Assignment("domain", terms, preferences, _nearest(choice, party))


def _domains(address: Address, party: Party) -> dict[int, Domain]:
    """The domains of an address by their tiers."""
    return {step.tier: Domain(party.levels[step.tier], step.values, step.keys) for step in address}


def _nearest(choice: Choice, party: Party) -> Address:
    """The nearest domain that holds the whole gang; that of the required level if no nearer one does."""
    for address in choice.preferred:
        if (
            address
            and party.gang.tiers[address[-1].tier].name == choice.level
            and all(len(step.values) == 1 for step in address)
        ):
            return address
    return choice.required
