"""A stock of Nodes in plain arrays, for tests of the choice."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from policies.topology.choice.stock import Codes, Integers, Mask
from policies.topology.gang.gang import GangKey, Member


class Bound(NamedTuple):
    """Pods of a gang that are bound to a Node, in sum."""

    requests: Mapping[str, int]
    priority: int = 0
    gang: GangKey | None = None


class Machine(NamedTuple):
    """A Node. taint: no Pod without a toleration for this key may run there. ready: whether it accepts Pods now."""

    name: str
    labels: Mapping[str, str]
    amounts: Mapping[str, int]
    bound: tuple[Bound, ...] = ()
    taint: str = ""
    ready: bool = True


class ArrayStock:
    """Nodes as columns, computed on each call."""

    def __init__(self, machines: Sequence[Machine | None]) -> None:
        self.machines = tuple(machines)
        self._values: list[str] = sorted(
            {f"{key}={value}" for one in machines if one for key, value in one.labels.items()}
            | {value for one in machines if one for value in one.labels.values()}
        )
        self._codes = {value: code for code, value in enumerate(self._values)}

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.machines)

    @property
    def edition(self) -> Hashable:
        """All of the Nodes but what runs on them."""
        return tuple(one and (one.name, *sorted(one.labels.items()), one.taint, one.ready) for one in self.machines)

    def names(self) -> list[str]:
        """The Nodes' names by row."""
        return [one.name if one else "" for one in self.machines]

    def allocatable(self, resource: str) -> Integers:
        """What each Node has of a resource."""
        return np.array([one.amounts.get(resource, 0) if one else 0 for one in self.machines], np.int64)

    def free(self, resource: str, priority: int | None = None, without: GangKey | None = None) -> Integers:
        """What is free of a resource on each Node."""
        return np.maximum(self.allocatable(resource) - np.array(
            [
                sum(
                    pod.requests.get(resource, 0)
                    for pod in (one.bound if one else ())
                    if (priority is None or pod.priority >= priority) and (without is None or pod.gang != without)
                )
                for one in self.machines
            ],
            np.int64,
        ), 0)  # fmt: skip

    def bound(self, gang: GangKey) -> bool:
        """Whether any Pod of a gang is bound."""
        return any(pod.gang == gang for one in self.machines if one for pod in one.bound)

    def eligible(self, member: Member) -> tuple[Mask, Mask]:
        """The Nodes that the member's Pods may run on now, and once the Node is well."""
        ever = np.array([one is not None and _may(member, one) for one in self.machines], bool)
        return ever & np.array([one is not None and one.ready for one in self.machines], bool), ever

    def domains(self, keys: tuple[str, ...], *, distinct: bool = False) -> Codes:
        """A code of the domain for each Node."""
        return np.array([self._code(one, keys, distinct=distinct) for one in self.machines], np.int32)

    def value(self, keys: tuple[str, ...], code: int, *, distinct: bool = False) -> str:
        """The value of a code."""
        assert keys
        return self._values[code].partition("=")[2] if distinct else self._values[code]

    def carried(self, keys: tuple[str, ...], rows: Mask) -> tuple[str, ...]:
        """The keys under which Nodes have their value."""
        carrying = [one for one, own in zip(self.machines, rows, strict=True) if own and one]
        for key in keys:
            if all(key in one.labels for one in carrying):
                return (key,)
        first = {next((key for key in keys if key in one.labels), "") for one in carrying}
        return tuple(key for key in keys if key in first)

    def _code(self, machine: Machine | None, keys: tuple[str, ...], *, distinct: bool) -> int:
        key = next((key for key in keys if machine and key in machine.labels), None)
        if machine is None or key is None:
            return -1
        value = machine.labels[key]
        return self._codes[f"{key}={value}" if distinct else value]


def _may(member: Member, machine: Machine) -> bool:
    tolerated = any(not t.key or t.key == machine.taint for t in member.tolerations)
    chosen = all(machine.labels.get(key) == value for key, value in member.node_selector)
    return chosen and (not machine.taint or tolerated)
