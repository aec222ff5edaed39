"""The way `affinity`: Pod affinity of a gang to itself, where no domain could be chosen.

The scheduler places one Pod after the other, and the first one decides where all others have to fit. The API server
merges `matchLabelKeys` into the selector of each Pod, and ignores a key that the Pod does not have, so they are used
only where the controller sets the key. Sources: PodAffinityTerm in the Kubernetes API reference; for the labels, the
controller of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from policies.engine.facts import Node
from policies.engine.request import JsonObject, mapping
from policies.topology.constraint import Constraint
from policies.topology.term import weights
from policies.topology.topology import Level, Topology
from policies.topology.way import replica
from policies.topology.way.assignment import NO_PLAN, Assignment, Plan, named
from policies.topology.way.party import count
from policies.topology.way.podaffinity import Together
from policies.topology.way.scene import Scene

LABELS: Final[Mapping[tuple[str, str], str]] = {
    ("batch", "Job"): "batch.kubernetes.io/controller-uid",
    ("batch", "CronJob"): "batch.kubernetes.io/controller-uid",
    ("jobset.x-k8s.io", "JobSet"): "jobset.sigs.k8s.io/jobset-name",
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): "jobset.sigs.k8s.io/jobset-name",
    ("trainer.kubeflow.org", "TrainingRuntime"): "jobset.sigs.k8s.io/jobset-name",
}
"""The label that the controller of a kind gives to all Pods of one gang, and to no others in the Namespace."""

_SELECTED = frozenset({("apps", "StatefulSet"), ("apps", "Deployment"), ("apps", "ReplicaSet")})


def assign(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """Pod affinity for templates of a new object whose Pods can be told from others; nothing for a single Pod."""
    if scene.request.operation != "CREATE":
        return NO_PLAN  # the Pod affinity of an object that exists is never changed
    counts = [count(constraint, scene) for constraint in constraints]
    if None not in counts and sum(pods or 0 for pods in counts) <= 1:
        return named("affinity", constraints)
    selected = selector(scene)
    if selected is None:
        return NO_PLAN
    nodes = scene.facts.nodes()
    return Plan({c.template.path: _assignment(c, selected, nodes) for c in constraints})


def selector(scene: Scene) -> JsonObject | None:
    """The part of a PodAffinityTerm that selects the Pods of an object's gang; None if nothing tells them apart."""
    group_kind = scene.row.group_kind
    label = LABELS.get(group_kind) or (replica.GROUP if replica.key(scene) else "")
    if label:
        return {"labelSelector": {}, "matchLabelKeys": [label]}
    chosen = mapping(mapping(scene.object, "spec"), "selector") if group_kind in _SELECTED else {}
    return {"labelSelector": chosen} if chosen else None


def _assignment(constraint: Constraint, selected: JsonObject, nodes: Sequence[Node]) -> Assignment:
    topology, required, preferred = constraint.topology, constraint.required, constraint.preferred
    hard: Sequence[str] = ()
    soft: Sequence[str] = ()
    if topology is not None and required is not None and constraint.requires_level:
        hard = _keys(required.level, topology, nodes)
    if topology is not None and preferred is not None and constraint.prefers_level:
        soft = [key for key in _keys(preferred.level, topology, nodes) if key not in hard]
    terms = Together(
        tuple({**selected, "topologyKey": key} for key in hard),
        tuple(
            {"weight": weight, "podAffinityTerm": {**selected, "topologyKey": key}}
            for key, weight in zip(soft, weights(len(soft)), strict=True)
        ),
    )
    return Assignment("affinity", constraint.terms, constraint.own_preferences, together=terms)


def _keys(level: Level, topology: Topology, nodes: Sequence[Node]) -> list[str]:
    """The key of a level, then those of the levels above without which its values are not unique on these Nodes."""
    inside = [(node.labels, value) for node in nodes if (value := level.value(node.labels)) is not None]
    keys = [_key(level, [labels for labels, _ in inside])]
    for above in reversed(topology.above(level)):
        holders: dict[str, set[str | None]] = {}
        for labels, value in inside:
            holders.setdefault(value, set()).add(above.value(labels))
        is_carried = not any(None in values for values in holders.values())
        if is_carried and any(len(values) > 1 for values in holders.values()):
            keys.append(_key(above, [labels for labels, _ in inside]))
    return keys


def _key(level: Level, labels: Sequence[Mapping[str, str]]) -> str:
    """The key of a level that most Nodes carry, the newest of equals: Pod affinity knows one key only."""
    return max(level.keys, key=lambda key: sum(key in carried for carried in labels))
