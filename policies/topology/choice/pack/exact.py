"""Whether Pods of several members fit, decided exactly where that takes few steps."""

from __future__ import annotations

from collections.abc import Iterator
from operator import mul

import numpy as np

from policies.topology.choice.pack.room import Room
from policies.topology.choice.stock import Integers

# Beginning takes as long as so many steps.
_START = 8

_Pods = tuple[int, ...]
_Stage = dict[_Pods, tuple[_Pods, _Pods]]


class Budget:
    """Steps that a question may still take, so that its time is bounded. The same question takes the same steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def spend(self, steps: int = 1) -> bool:
        """Take some steps. False if not so many are left."""
        self.steps -= steps
        return self.steps >= 0


def packing(room: Room, least: int, budget: Budget) -> Integers | None:
    """A packing with at least `least` Pods: of those with the most the one with the most accelerators; by member, Node.

    None if there is none, or if the budget ends. Node by Node it keeps the sets of Pods that can be left over, without
    those from which too many would be left over in the end.
    """
    counts = tuple(map(int, room.counts))
    nodes = np.flatnonzero(room.fit.any(axis=0))
    budget.steps -= _START
    if not len(nodes):
        return None
    capacities = room.fit[:, nodes]
    # The Pods of each member for which the Nodes after a Node have room.
    after = np.cumsum(capacities[:, ::-1], axis=1)[:, ::-1] - capacities
    requests, allowed = room.requests.tolist(), sum(counts) - least
    stages: list[_Stage] = []
    states: tuple[_Pods, ...] = (counts,)
    for node in range(len(nodes)):
        free, later = room.free[:, nodes[node]].tolist(), after[:, node].tolist()
        stage: _Stage = {}
        for left in states:
            most = tuple(min(pods, int(fit)) for pods, fit in zip(left, capacities[:, node], strict=True))
            for pattern in _patterns(most, requests, free):
                if not budget.spend():
                    return None
                rest = tuple(pods - pod for pods, pod in zip(left, pattern, strict=True))
                if sum(max(0, pods - int(room_)) for pods, room_ in zip(rest, later, strict=True)) <= allowed:
                    stage.setdefault(rest, (left, pattern))
        stages.append(stage)
        states = tuple(stage)
        if not states:
            return None
    accelerators = [member.accelerators for member in room.members]
    best = min(states, key=lambda left: (sum(left), sum(map(mul, left, accelerators)), left))
    taken = np.zeros_like(room.fit)
    taken[:, nodes] = _traced(best, stages)
    return taken


def _patterns(most: _Pods, requests: list[list[int]], free: list[int]) -> Iterator[_Pods]:
    """The sets of Pods that a Node can hold, without those of which another one holds more of the last member."""
    if not most:
        yield ()
        return
    own, *others = requests
    fit = min((amount // request for request, amount in zip(own, free, strict=True) if request), default=most[0])
    largest = min(most[0], fit)
    for pods in range(largest, -1, -1) if others else (largest,):
        rest = [amount - pods * request for amount, request in zip(free, own, strict=True)]
        for pattern in _patterns(most[1:], others, rest):
            yield (pods, *pattern)


def _traced(left: _Pods, stages: list[_Stage]) -> Integers:
    columns = []
    for stage in reversed(stages):
        left, pattern = stage[left]
        columns.append(pattern)
    return np.array(columns[::-1], np.int64).T
