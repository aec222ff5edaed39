"""Nodes with what is bound to them, in plain values, and an inventory of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from policies.engine.facts import Node, Taint
from policies.topology.choice import Ground, Layouts
from policies.topology.nodes.inventory import Inventory, Standing
from policies.topology.nodes.manifest import Amounts, lasting, obstacles


class Bound(NamedTuple):
    """Pods that are bound to a Node, in sum."""

    requests: Mapping[str, int]
    priority: int = 0


class Machine(NamedTuple):
    """A Node. taint: no Pod without a toleration for this key may run there. ready: whether it accepts Pods now."""

    name: str
    labels: Mapping[str, str]
    amounts: Mapping[str, int]
    bound: tuple[Bound, ...] = ()
    taint: str = ""
    ready: bool = True


def ground(machines: Sequence[Machine]) -> Ground:
    """The Nodes with what is free on them."""
    inventory = Inventory()
    for one in machines:
        taints = (Taint(one.taint, "NoSchedule"),) if one.taint else ()
        node = Node(one.name, one.labels, taints)
        standing = Standing(lasting(node), obstacles(node, ready=one.ready))
        inventory.put(node, _amounts(one.amounts), standing)
        for number, pod in enumerate(one.bound):
            inventory.put_pod((one.name, str(number)), one.name, _amounts(pod.requests), pod.priority)
    return Ground(inventory, Layouts(inventory))


def _amounts(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
