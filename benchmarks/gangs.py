"""The time to choose a domain, simulated with the same decision code: 10,000 Nodes, gangs that come and go."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from statistics import quantiles
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from msgspec import convert
from policies.topology.choice.ground.address import Values
from policies.topology.choice.ground.atlas import Atlas
from policies.topology.choice.survey import Survey
from policies.topology.gang.promise import Promise

from benchmarks.report import Figure
from policies.topology.choice.choice import Choice
from policies.topology.gang.gang import Gang, GangKey, Member, Tier
from policies.topology.nodes.inventory import Inventory
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.nodes.requests import requests

FABRICS, SUPERPODS, LEAFGROUPS, RACKS, NODES = 2, 5, 5, 25, 8
"""Each so many in one of the level above: 10,000 Nodes."""

PROMISES = 200
LOAD = 0.8  # of all Nodes; what is promised included
LEVELS = ("fabric", "superpod", "leafgroup", "rack", "hostname")
SIZES = {
    8: (20, LEVELS.index("rack"), None),
    64: (5, LEVELS.index("leafgroup"), 3),
    512: (1, LEVELS.index("superpod"), 3),
}
"""By Pods of a gang: how often it comes, its required level, its preferred one."""

TARGETS = {8: 2.0, 64: 20.0, 512: 20.0}  # milliseconds
GANGS = 1500

_KEYS = ("backend.coreweave.cloud/fabric", "backend.coreweave.cloud/superpod", "backend.coreweave.cloud/leafgroup",
         "node.coreweave.cloud/rack", "kubernetes.io/hostname")  # fmt: skip
_OLD = "ib.coreweave.cloud/"
TIERS = tuple(
    Tier(name, (key, _OLD + name) if key.startswith("backend") else (key,))
    for name, key in zip(LEVELS, _KEYS, strict=True)
)
_WORKER = {"cpu": "100", "memory": "900Gi", "nvidia.com/gpu": "8", "rdma/ib": "1"}
_LAUNCHER = {"cpu": "2", "memory": "4Gi"}
_ALLOCATABLE = {"cpu": "126", "memory": "2000Gi", "nvidia.com/gpu": "8", "rdma/ib": "100", "pods": "110"}


class Measurement(NamedTuple):
    """Milliseconds by the Pods of the gang, of the thread.

    change: what the inventory takes for the Pods that are bound and removed between two questions. choice: the answer
    after that change, with all that the change made untrue. again: the same answer while nothing changes.
    """

    change: dict[int, list[float]]
    choice: dict[int, list[float]]
    again: dict[int, list[float]]
    outcomes: dict[str, int]


class Simulation:
    """A cluster to which gangs come one after the other, run for a while, and go."""

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)  # noqa: S311 - repeatable on purpose
        self.inventory = Inventory(lambda pod: GangKey("team", "batch", "Job", pod.key[1].rpartition("-")[0]))
        self.atlas = Atlas()
        self.promises: deque[Promise] = deque()
        self.running: deque[tuple[str, int]] = deque()
        self.taken = 0
        self.number = 0
        self.seconds = 0.0
        for node in nodes(self.random):
            self.inventory.put_node(node)

    def gang(self, pods: int) -> Gang:
        """The next gang of so many Pods. Every fourth has a launcher besides."""
        self.number += 1
        _, required, preferred = SIZES[pods]
        members = [Member("worker", pods, _amounts(_WORKER), 8, priority=0)]
        if self.number % 4 == 0:
            members.append(Member("launcher", 1, _amounts(_LAUNCHER), priority=0))
        key = GangKey("team", "batch", "Job", f"job-{self.number}")
        return Gang(key, "coreweave", TIERS, tuple(members), required, preferred)

    def survey(self) -> Survey:
        """What the next question is asked of."""
        return Survey(self.inventory, tuple(self.promises), self.atlas)

    def take(self, gang: Gang, choice: Choice) -> None:
        """Promise the gang its domain. The oldest promise is kept: its Pods are bound. The oldest gangs end."""
        if choice.outcome == "fits":
            self.promises.append(Promise(gang.key, choice.required, gang.members, 0.0))
            self.taken += gang.accelerators // 8
        if len(self.promises) > PROMISES:
            self._bind(self.promises.popleft())
        while self.running and self.taken > LOAD * FABRICS * SUPERPODS * LEAFGROUPS * RACKS * NODES:
            name, pods = self.running.popleft()
            self.taken -= pods
            for number in range(pods + 1):
                self._change(self.inventory.remove_pod, "team", f"{name}-{number}")

    def _change(self, change: Callable[..., None], *about: Any) -> None:
        """Change the inventory, and count the time."""
        start = thread_time()
        change(*about)
        self.seconds += thread_time() - start

    def _bind(self, promise: Promise) -> None:
        rows = np.flatnonzero(Values(self.inventory, np.arange(self.inventory.size)).matched(promise.address))
        free = self.inventory.free("nvidia.com/gpu")
        names = self.inventory.names()
        empty = [names[row] for row in rows if free[row] >= 8]
        count = min(promise.members[0].count, len(empty))
        for number, node in enumerate(empty[:count]):
            self._change(self.inventory.put_pod, pod(f"{promise.key.name}-{number}", node, _WORKER))
        if len(promise.members) > 1:
            self._change(self.inventory.put_pod, pod(f"{promise.key.name}-{count}", names[rows[0]], _LAUNCHER))
        self.running.append((promise.key.name, promise.members[0].count))


def nodes(random: Random) -> Iterator[NodeManifest]:
    """The Nodes in an order that means nothing. Superpods, leaf groups and racks have the same numbers everywhere."""
    counts = (FABRICS, SUPERPODS, LEAFGROUPS, RACKS, NODES)
    places = list(np.ndindex(counts))
    random.shuffle(places)
    for place in places:
        name = "node-" + "-".join(map(str, place))
        labels = {key: str(number) for key, number in zip(_KEYS[:-1], place, strict=False)} | {_KEYS[-1]: name}
        labels |= {_OLD + level: str(number) for level, number in zip(LEVELS[:3], place, strict=False)}
        yield convert(
            {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": _ALLOCATABLE}}, NodeManifest
        )


def pod(name: str, node: str, amounts: dict[str, str]) -> PodManifest:
    """A bound Pod."""
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": amounts}}]}
    return convert({"metadata": {"name": name, "namespace": "team"}, "spec": spec}, PodManifest)


def _amounts(amounts: dict[str, str]) -> tuple[tuple[str, int], ...]:
    return requests(pod("", "", amounts))


def measure(say: Callable[[str], None], gangs: int = GANGS) -> Measurement:
    """Let gangs come until the cluster is as full as it gets, and time the choices for so many more."""
    simulation = Simulation()
    mix = [pods for pods, (share, *_) in SIZES.items() for _ in range(share)]
    measurement = Measurement(_times(), _times(), _times(), {})
    say("filling 10,000 Nodes")
    while len(simulation.promises) < PROMISES or simulation.taken < (LOAD - 0.02) * 10_000:
        gang = simulation.gang(simulation.random.choice(mix))
        simulation.take(gang, simulation.survey().choose([gang])[0])
    say(f"{gangs} gangs beside {PROMISES} promises")
    for _ in range(gangs):
        _time(simulation, simulation.random.choice(mix), measurement)
    for _ in range(gangs // 10):
        _time(simulation, 512, measurement)
    return measurement


def _times() -> dict[int, list[float]]:
    return {size: [] for size in SIZES}


def _time(simulation: Simulation, pods: int, measurement: Measurement) -> None:
    gang = simulation.gang(pods)
    measurement.change[pods].append(simulation.seconds * 1e3)
    simulation.seconds = 0.0
    for times in (measurement.choice, measurement.again):
        start = thread_time()
        choice = simulation.survey().choose([gang])[0]
        times[pods].append((thread_time() - start) * 1e3)
    measurement.outcomes[choice.outcome] = measurement.outcomes.get(choice.outcome, 0) + 1
    simulation.take(gang, choice)


def figures(measurement: Measurement) -> Iterator[Figure]:
    """The figures with their targets."""
    for pods, target in TARGETS.items():
        yield Figure(f"p99 of a choice for {pods} Pods", _p(measurement.choice[pods], 99), target, unit=" ms")


def table(measurement: Measurement) -> Iterator[str]:
    """The times by size of the gang."""
    yield f"{'choice of a domain of 10,000 Nodes':<42}{'p50 ms':>9}{'p99 ms':>9}{'gangs':>9}"
    for what, times in measurement._asdict().items():
        if what == "outcomes":
            continue
        for pods, own in times.items():
            yield f"  {f'{what}, {pods} Pods':<40}{_p(own, 50):>9.2f}{_p(own, 99):>9.2f}{len(own):>9}"
    yield "  " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(measurement.outcomes.items()))


def as_json(measurement: Measurement) -> dict[str, Any]:
    """All figures."""
    return measurement._asdict()


def _p(times: list[float], percent: int) -> float:
    return quantiles(times, n=100, method="inclusive")[percent - 1]
