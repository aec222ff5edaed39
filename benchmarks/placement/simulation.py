"""The same stream without an API server: the service's own inventory and choice, and a model of the scheduler.

It answers in seconds what another order of domains would change. The model of the scheduler: Pods one by one in the
order of their turns, a Node at random of those with room (GPUs do not count in the scores of kube-scheduler's
defaults), and after a failure a pause that doubles from 1 s to 10 s, which ends when something is freed.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from itertools import count

from cluster import manifests
from cluster.topologynodes import BACKEND, RACK
from msgspec import Struct, convert, field
from msgspec.structs import replace
from policies.topology.gang.promise import Promise

from benchmarks.placement import stream
from benchmarks.placement.history import Binding, History, Stay
from benchmarks.placement.stream import Arrival
from policies.topology.choice.choice import Choice
from policies.topology.gang.address import Address
from policies.topology.gang.gang import PODS, Gang, GangKey, Member, Tier
from policies.topology.nodes.inventory import Inventory
from policies.topology.nodes.manifest import NodeManifest, PodManifest

GPU = "nvidia.com/gpu"
TIERS = (Tier("fabric", (f"{BACKEND}/fabric",)), Tier("superpod", (f"{BACKEND}/superpod",)), Tier("rack", (RACK,)))
LEVELS = {tier.name: number for number, tier in enumerate(TIERS)}
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 10.0

Chooser = Callable[[Gang, Inventory, Sequence[Promise]], Choice]


class Pod(Struct):
    """A Pod that waits. again: not before this time; ready: whether something was freed since it failed."""

    stay: Stay
    name: str
    address: Address
    failures: int = 0
    again: float = 0.0
    ready: bool = True
    bound: bool = False


class Simulation(Struct):
    """One run. choose: the choice of a domain; None for a scheduler that is told nothing."""

    choose: Chooser | None
    chance: random.Random
    inventory: Inventory = field(default_factory=lambda: Inventory(_member_of))
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    waiting: list[Pod] = field(default_factory=list)
    gangs: dict[str, tuple[Gang, Address]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)

    def go(self, arrivals: Sequence[Arrival]) -> History:
        """Run until nothing happens any more."""
        for name, labels in stream.nodes():
            self.labels[name] = dict(labels)
            self.free[name] = stream.GPUS
            self.inventory.put_node(convert(manifests.node(name, labels, [], {GPU: stream.GPUS}), NodeManifest))
        turn = count()
        events: list[tuple[float, int, str, Arrival | str]] = [
            (arrival.at, next(turn), "comes", arrival) for arrival in arrivals
        ]
        heapq.heapify(events)
        stays: dict[str, Stay] = {}
        now = 0.0
        while events:
            now, _, what, subject = heapq.heappop(events)
            if isinstance(subject, Arrival):
                stays[subject.name] = Stay(subject, now)
                self._come(stays[subject.name])
            elif what == "ends":
                self._end(stays[subject], now)
            for stay in self._schedule(now):
                heapq.heappush(events, (now + stay.arrival.life, next(turn), "ends", stay.arrival.name))
            if again := [pod.again for pod in self.waiting if pod.ready and pod.again > now]:
                heapq.heappush(events, (min(again), next(turn), "again", ""))
        return History(tuple(stays.values()), now)

    def _come(self, stay: Stay) -> None:
        size = stay.arrival.size
        member = Member("spec.template", size.pods, ((GPU, size.gpus), (PODS, 1)), size.gpus)
        gang = Gang(_key(stay.arrival.name), "coreweave", TIERS, (member,), LEVELS[size.level])
        address: Address = ()
        if self.choose is not None:
            choice = self.choose(gang, self.inventory, self._promises())
            address = choice.required
            self.outcomes[stay.arrival.name] = choice.outcome
        self.gangs[stay.arrival.name] = gang, address
        self.waiting += [Pod(stay, f"{stay.arrival.name}-{number}", address) for number in range(size.pods)]

    def _promises(self) -> list[Promise]:
        left: dict[str, int] = {}
        for pod in self.waiting:
            left[pod.stay.arrival.name] = left.get(pod.stay.arrival.name, 0) + 1
        made = []
        for name, pods in left.items():
            gang, address = self.gangs[name]
            members = (replace(gang.members[0], count=pods),)
            made.append(Promise(gang.key, address, members, math.inf))
        return made

    def _schedule(self, now: float) -> list[Stay]:
        """Bind what can be bound, and return the gangs that are whole now."""
        whole = []
        turns = sorted((pod for pod in self.waiting if pod.ready and pod.again <= now), key=lambda pod: pod.again)
        for pod in turns:
            gpus = pod.stay.arrival.size.gpus
            nodes = [node for node, free in self.free.items() if free >= gpus and self._is_in(node, pod.address)]
            if not nodes:
                pod.again = now + min(_FIRST_PAUSE * 2**pod.failures, _LONGEST_PAUSE)
                pod.failures, pod.ready = pod.failures + 1, False
                continue
            node = self.chance.choice(nodes)
            self._bind(pod, node, now)
            if pod.stay.started < math.inf:
                whole.append(pod.stay)
        self.waiting = [pod for pod in self.waiting if not pod.bound]
        return whole

    def _is_in(self, node: str, address: Address) -> bool:
        labels = self.labels[node]
        return all(any(labels.get(key) in step.values for key in step.keys) for step in address)

    def _bind(self, pod: Pod, node: str, now: float) -> None:
        labels, gpus = self.labels[node], pod.stay.arrival.size.gpus
        self.free[node] -= gpus
        pod.bound = True
        superpod = f"{labels[f'{BACKEND}/fabric']}/{labels[f'{BACKEND}/superpod']}"
        pod.stay.bindings.append(Binding(now, labels[RACK], superpod, node))
        made = _pod(pod.name, node, gpus)
        self.inventory.put_pod(convert(made, PodManifest))

    def _end(self, stay: Stay, now: float) -> None:
        stay.ended = now
        for number, binding in enumerate(stay.bindings):
            self.free[binding.node] += stay.arrival.size.gpus
            self.inventory.remove_pod("stream", f"{stay.arrival.name}-{number}")
        for pod in self.waiting:
            pod.ready = True


def _key(name: str) -> GangKey:
    return GangKey("stream", "batch", "Job", name)


def _member_of(pod: PodManifest) -> GangKey:
    return _key(pod.key[1].rpartition("-")[0])


def _pod(name: str, node: str, gpus: int) -> manifests.Manifest:
    """Return a bound Pod."""
    containers = [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "stream"},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": "Running"},
    }
