"""What becomes of a pod template's topology annotations, and why: as values, before they are put into words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from policies.objects.fieldpath import render
from policies.podspec import allows
from policies.topology.annotation import ANNOTATIONS
from policies.topology.constraint import Constraint
from policies.topology.gate import GATE
from policies.topology.nodes.machine import Machine
from policies.topology.nodes.tree import Count, Path, count, path
from policies.topology.placement import Placement
from policies.topology.rule import Explained
from policies.topology.term import meets
from policies.topology.topology import Level, Topology, natural


class Landing(Struct, frozen=True):
    """On how many Nodes the Pods may land, as far as labels decide. domains: these by the placement's level."""

    nodes: int
    all: int
    level: Level | None = None
    domains: tuple[tuple[Path, Count], ...] = ()


class Explanation(Struct, frozen=True):
    """Of one template. annotations: key, value and path of each. copied: key and value of those that it gets.

    way: who keeps its Pods together, empty for nobody. meaning: what that comes to, or why nothing is done. reason: why
    it is not an earlier way. never: why the gang fits nowhere, empty if it does.
    """

    path: str
    annotations: tuple[tuple[str, str, str], ...]
    topology: Topology | None
    placements: tuple[tuple[str, Placement], ...]
    copied: tuple[tuple[str, str], ...]
    way: str
    meaning: str
    reason: str
    never: str
    landing: Landing | None


def explain(explained: Explained, machines: Sequence[Machine] | None) -> Explanation:
    """The explanation of a template. machines: None where Nodes are not known."""
    constraint, keeper, shortage = explained
    placements = [("required", constraint.required), ("preferred", constraint.preferred)]
    own = constraint.template.own.values
    copied = zip(ANNOTATIONS, constraint.carries, own, strict=True)
    is_usable = constraint.is_usable
    return Explanation(
        constraint.template.path,
        tuple(_annotations(constraint)),
        constraint.topology,
        tuple((name, placement) for name, placement in placements if placement is not None),
        tuple((key, str(value)) for key, value, was in copied if is_usable and value is not None and value != was),
        keeper.way,
        meaning(explained),
        keeper.reason if keeper.way else "",
        "" if shortage is None else shortage.problem,
        None if machines is None else _landing(constraint, machines),
    )


def meaning(explained: Explained) -> str:
    """What becomes of a template's Pods, in a sentence without its end."""
    constraint, keeper, _ = explained
    placement, topology = constraint.placement, constraint.topology
    if not constraint.is_usable:
        return "what is asked for cannot be used"
    if topology is None or placement is None:
        return "a topology alone places nothing" if constraint.annotations.anything else "nothing is asked for"
    required = constraint.required is not None
    where = f"one {placement.called(topology)}" if placement.is_open else placement.called(topology)
    together = f"until all of them fit into {where}" if required else f"until all exist, and start close to {where}"
    kept = f"keeps its Pods in {where}" if required else f"draws its Pods to {where}"
    return {
        "gate": f"its Pods wait behind the gate {GATE} {together}",
        "affinity": f"Pod affinity {kept}; they are placed one by one",
        "kueue": f"Kueue places its Pods, and is told {topology.called(placement.level)}",
        "workload": f"kube-scheduler starts all of its Pods in {where}, or none of them",
    }.get(keeper.way, keeper.reason)


def _annotations(constraint: Constraint) -> Iterator[tuple[str, str, str]]:
    for annotation, key in zip(constraint.annotations.all, ANNOTATIONS, strict=True):
        if annotation is not None:
            path = render((*annotation.holder, *annotation.within)) if annotation.key else annotation.path
            yield key, str(annotation.value), path


def _landing(constraint: Constraint, machines: Sequence[Machine]) -> Landing:
    topology, placement = constraint.topology, constraint.placement
    spec, pool = constraint.template.spec, topology.pool if topology is not None else None
    allowed = [machine for machine in machines if allows(spec, machine.node)]
    if placement is None or topology is None or not constraint.is_placed:
        return Landing(len(allowed), len(machines))
    allowed = [
        machine
        for machine in allowed
        if meets(machine.node.labels, constraint.terms) and (pool is None or pool.matches(machine.node.labels))
    ]
    levels = (*topology.above(placement.level), placement.level)
    inside: dict[Path, list[Machine]] = {}
    for machine in allowed:
        inside.setdefault(path(levels, machine.node.labels), []).append(machine)
    ordered = sorted(inside.items(), key=lambda item: [natural(value) for _, value in item[0]])
    counts = tuple((around, count(those)) for around, those in ordered)
    return Landing(len(allowed), len(machines), placement.level, counts)
