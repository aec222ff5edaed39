"""The tree of Nodes for machines."""

from __future__ import annotations

from typing import Any

from policies.topology.nodes.inventory import Machine
from policies.topology.nodes.tree import Branch, Count
from policies.topology.topology import Topology


def of(root: Branch, topology: Topology) -> dict[str, Any]:
    """The whole tree."""
    return {"topology": topology.name, **_inside(root, topology)}


def _branch(branch: Branch, topology: Topology) -> dict[str, Any]:
    """`name` is null for the Nodes that lack the level."""
    level = "" if branch.level is None else topology.called(branch.level)
    return {"level": level, "name": branch.value, **_inside(branch, topology)}


def _inside(branch: Branch, topology: Topology) -> dict[str, Any]:
    return {
        **_count(branch.count),
        **({"domains": [_branch(each, topology) for each in branch.branches]} if branch.branches else {}),
        **({"members": [_machine(each) for each in branch.machines]} if branch.machines else {}),
    }


def _count(count: Count) -> dict[str, Any]:
    """`used`, `free` and `unavailable` are null where Pods are not known."""
    known = count.free is not None
    return {
        "nodes": count.nodes,
        "closedNodes": count.closed,
        "gpus": count.total,
        "used": count.used,
        "free": count.free,
        "unavailable": count.unavailable if known else None,
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.node.name,
        "gpus": machine.total,
        "used": machine.used,
        "free": machine.free,
        "ready": machine.ready,
        "cordoned": machine.cordoned,
    }
