"""Whether Pods fit on Nodes, tried Pod by Pod. It shares nothing with the choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from support.gangs.machines import Machine

from policies.topology.gang import Address, Member

Free = dict[str, dict[str, int]]


def inside(machines: Iterable[Machine], address: Address) -> list[Machine]:
    """The Nodes whose labels match all steps of an address."""
    return [
        one
        for one in machines
        if all(next((one.labels[k] for k in step.keys if k in one.labels), None) == step.value for step in address)
    ]


def free(machines: Iterable[Machine], priority: int | None = None) -> Free:
    """What is free on each Node, if only Pods of at least a priority count."""
    left = {one.name: dict(one.amounts) for one in machines}
    for one in machines:
        for pod in one.bound:
            if priority is None or pod.priority >= priority:
                for name, amount in pod.requests.items():
                    left[one.name][name] = left[one.name].get(name, 0) - amount
    return {name: {key: max(0, amount) for key, amount in amounts.items()} for name, amounts in left.items()}


def fits(groups: Sequence[tuple[Member, Sequence[Machine]]], left: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether the Pods of all members fit together, each member's on Nodes of its own list."""
    pods = [(member, machines) for member, machines in groups for _ in range(member.count)]
    return _fits(tuple(pods), {name: dict(amounts) for name, amounts in left.items()}, set())


def _fits(pods: tuple[tuple[Member, Sequence[Machine]], ...], left: Free, failed: set[object]) -> bool:
    if not pods:
        return True
    state = (len(pods), tuple(tuple(amounts.items()) for amounts in left.values()))
    if state in failed:
        return False
    (member, machines), rest = pods[0], pods[1:]
    for one in machines:
        may = one.ready and not one.taint and all(one.labels.get(key) == value for key, value in member.node_selector)
        if may and all(left[one.name].get(name, 0) >= amount for name, amount in member.requests):
            for name, amount in member.requests:
                left[one.name][name] -= amount
            done = _fits(rest, left, failed)
            for name, amount in member.requests:
                left[one.name][name] += amount
            if done:
                return True
    failed.add(state)
    return False
