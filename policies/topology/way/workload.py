"""The way `workload`: Kubernetes' own scheduler places the whole gang, by a constraint that a new Job gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policies.engine.request import mapping
from policies.topology.constraint import Constraint
from policies.topology.scheduling import workload as scheduling
from policies.topology.scheduling.support import SupportKey
from policies.topology.scheduling.workload import FIELD, Offer
from policies.topology.way.assignment import NO_PLAN, Assignment, Edit, Plan, named
from policies.topology.way.scene import Scene


def assign(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """Constraints for templates of a new object; nothing where the options or the cluster do not provide for that.

    A Pod that belongs to a PodGroup already is placed with that.
    """
    if scene.row.kind == "Pod" and mapping(scene.object, "spec").get("schedulingGroup") is not None:
        return named("workload", constraints)
    if not scene.options.schedules or scene.request.operation != "CREATE":
        return NO_PLAN  # the field can never be set later
    support, nodes, kind = scene.facts.look_up(SupportKey()), scene.facts.nodes(), scene.request.kind.group_kind
    plan = NO_PLAN
    for constraint in constraints:
        offer = scheduling.offer(constraint, kind, scene.object, support, nodes)
        if not offer.key:
            plan = plan.joined(Plan(reasons={constraint.template.path: offer.obstacle}))
            continue
        edits: tuple[Edit, ...] = ((FIELD, scheduling.scheduling(offer.key)),) if support.form == "Job" else ()
        plan = plan.joined(_plan(constraint, offer, edits))
    return plan


def restored(scene: Scene) -> Iterator[Edit]:
    """The edit that puts back a constraint which an update lacks, as the API server refuses to clear it."""
    for earlier in scene.submission.earlier:
        value = scheduling.restored(scene.object, scene.request.old_object, earlier.entry.scheduling)
        if value is not None:
            yield FIELD, value


def _plan(constraint: Constraint, offer: Offer, edits: tuple[Edit, ...]) -> Plan:
    topology, required = constraint.topology, constraint.required
    level = topology.called(required.level) if topology and required else ""
    sentence = f"kube-scheduler starts all Pods in one {level}, a value of {offer.key}, or none of them"
    told = () if constraint.is_default else (f'required "{level}": {sentence}',)
    # The terms name the domains around the level, without which its values may not be unique.
    assignment = Assignment("workload", constraint.terms, scheduling=offer.key)
    return Plan({constraint.template.path: assignment}, warnings=told, decisions=(sentence,), edits=edits)
