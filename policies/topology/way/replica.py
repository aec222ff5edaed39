"""The replicas of a LeaderWorkerSet, of which each is a gang of its own.

Nothing is chosen for the LeaderWorkerSet itself. Its templates get the annotations, with which every Pod is created,
and each replica is placed at the creation of its leader. Its workers ask about the same gang, and so get its domain.
Source: LeaderWorkerSet's controller, which sets the labels, and the size of a replica as an annotation.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine.request import mapping
from policies.topology.annotation import ANNOTATIONS
from policies.topology.constraint import Constraint
from policies.topology.gang.gang import GangKey
from policies.topology.gang.membership import LEADER_WORKER_SET, WORKER, membership
from policies.topology.way.assignment import NO_PLAN, Assignment, Plan
from policies.topology.way.scene import Scene

GROUP = "leaderworkerset.sigs.k8s.io/group-key"
"""The label that the Pods of one replica share."""

_SIZE = "leaderworkerset.sigs.k8s.io/size"


def assign(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """The annotations for the templates of a LeaderWorkerSet; nothing for other kinds."""
    if scene.row.group_kind != LEADER_WORKER_SET:
        return NO_PLAN
    return Plan({constraint.template.path: _copied(constraint) for constraint in constraints})


def is_moved(constraint: Constraint, scene: Scene) -> bool:
    """Whether annotations of a LeaderWorkerSet stand elsewhere than before, so that others are to be copied."""
    if constraint.earlier is None or scene.row.group_kind != LEADER_WORKER_SET:
        return False
    return constraint.template.annotations.places != constraint.earlier.annotations.places


def key(scene: Scene) -> GangKey | None:
    """The key of the replica that a Pod belongs to; None for other objects."""
    if scene.row.group_kind != ("", "Pod"):
        return None
    belongs = membership(scene.object, scene.request.namespace)
    return belongs.key if belongs is not None and belongs.key.part else None


def follows(scene: Scene) -> bool:
    """Whether a Pod is a worker, which belongs where the others of its replica are."""
    belongs = membership(scene.object, scene.request.namespace) if key(scene) is not None else None
    return belongs is not None and belongs.role == WORKER


def size(scene: Scene) -> int:
    """The number of Pods in a Pod's replica; 1 if it does not say."""
    text = mapping(mapping(scene.object, "metadata"), "annotations").get(_SIZE)
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < len("1000000") else 1


def _copied(constraint: Constraint) -> Assignment:
    """What a template gets: the annotations that apply to it but are not its own, and the domains that they name."""
    topology, own = constraint.topology, constraint.template.location
    placements = [
        "" if topology is None or placement is None else placement.called(topology)
        for placement in (constraint.required, constraint.preferred)
    ]
    given = zip(ANNOTATIONS, (topology.name if topology else "", *placements), constraint.annotations.all, strict=True)
    copies = tuple((name, text) for name, text, at in given if text and (at is None or not at.key or at.holder != own))
    terms = () if constraint.requires_level else constraint.terms
    return Assignment("domain", terms, constraint.own_preferences, annotations=copies)
