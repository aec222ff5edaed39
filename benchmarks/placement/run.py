"""A run: gangs are created when they come, and deleted when their time is over, on a real control plane."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from cluster import gangs, workloads
from cluster.apicalls import Answer, Caller
from cluster.components import LASTS
from cluster.controlplane import ControlPlane
from cluster.gangs import Way
from cluster.topologynodes import BACKEND, RACK

from benchmarks.load import LoadError
from benchmarks.placement.bindings import Bindings
from benchmarks.placement.history import Binding, History, Stay
from benchmarks.placement.stream import GPUS, Arrival, Beside

# Unschedulable Pods are tried again after 10 s at most. A cluster in which nothing happens for longer stays so.
QUIET_SECONDS = 25.0
_PAUSE_SECONDS = 0.05
_WARNED_CHARACTERS = 48

Labels = Mapping[str, Mapping[str, str]]


class Run:
    """One way's run. warnings: what people were told on creation, by its first words."""

    def __init__(self, cluster: ControlPlane, namespace: str, way: Way, labels: Labels) -> None:
        """Prepare it. labels: of each Node."""
        self.warnings: Counter[str] = Counter()
        self._cluster = cluster
        self._namespace = namespace
        self._way = way
        self._labels = labels
        self._stays: dict[str, Stay] = {}
        self._ends: list[tuple[float, str]] = []
        self._began = 0.0

    def go(self, arrivals: Sequence[Arrival], say: Callable[[str], None], beside: Sequence[Beside] = ()) -> History:
        """Run to the end, or until nothing happens any more. Raises LoadError if a gang is not accepted.

        beside: plain Pods that come and go meanwhile.
        """
        waiting, plain = list(reversed(arrivals)), list(reversed(beside))
        ends: list[tuple[float, str]] = []
        with Bindings(self._cluster, self._namespace) as bindings, Caller(self._cluster) as caller:
            self._began = last = time.monotonic()
            said = 0.0
            while (waiting or self._is_going_on()) and (waiting or self._ends or self._now() < last + QUIET_SECONDS):
                now = self._now()
                while waiting and waiting[-1].at <= now:
                    self._create(caller, waiting.pop())
                    last = now
                while plain and plain[-1].at <= now:
                    one = plain.pop()
                    _require(caller.send("POST", f"/api/v1/namespaces/{self._namespace}/pods", self._plain(one.name)))
                    heapq.heappush(ends, (now + one.life, one.name))
                while ends and ends[0][0] <= now:
                    _, name = heapq.heappop(ends)
                    _require(caller.send("DELETE", f"/api/v1/namespaces/{self._namespace}/pods/{name}"))
                while self._ends and self._ends[0][0] <= now:
                    self._end(caller, heapq.heappop(self._ends)[1])
                    last = now
                last = now if self._note(bindings) else last
                if now > said + 20:
                    said = now
                    say(f"{self._way}: {len(self._stays)} of {len(arrivals)} gangs came, {self._running()} run")
                time.sleep(_PAUSE_SECONDS)
            for _, name in ends:
                caller.send("DELETE", f"/api/v1/namespaces/{self._namespace}/pods/{name}")
            return History(tuple(self._stays.values()), self._now(), self._stuck(caller))

    def _plain(self, name: str) -> Mapping[str, object]:
        spec = {"terminationGracePeriodSeconds": 0, "containers": workloads.gpus(GPUS)}
        return workloads.pod(self._namespace, name, {"app": name, **LASTS}, **spec)

    def _stuck(self, caller: Caller) -> frozenset[str]:
        """The gangs that have a Pod with the Event that it is opened and not bound."""
        path = f"/api/v1/namespaces/{self._namespace}/events?fieldSelector=reason%3DStuck"
        names = (event["involvedObject"]["name"] for event in caller.send("GET", path).body["items"])
        return frozenset(name.rpartition("-")[0] for name in names) & self._stays.keys()

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _is_going_on(self) -> bool:
        return any(stay.ended == math.inf for stay in self._stays.values())

    def _running(self) -> int:
        return len(self._ends)

    def _create(self, caller: Caller, arrival: Arrival) -> None:
        size = arrival.size
        job = gangs.job(self._namespace, arrival.name, self._way, pods=size.pods, gpus=size.gpus, level=size.level)
        answer = caller.send("POST", f"/apis/batch/v1/namespaces/{self._namespace}/jobs", job, user="alice")
        _require(answer)
        self.warnings.update(warning[:_WARNED_CHARACTERS] for warning in answer.warnings)
        self._stays[arrival.name] = Stay(arrival, self._now())

    def _note(self, bindings: Bindings) -> bool:
        """Note what was bound, and say whether anything was. A gang whose last Pod was bound has its time from now."""
        taken = bindings.take()
        for gang, _, node, at in taken:
            if gang not in self._stays:
                continue  # a plain Pod
            stay, labels = self._stays[gang], self._labels[node]
            superpod = f"{labels[f'{BACKEND}/fabric']}/{labels[f'{BACKEND}/superpod']}"
            stay.bindings.append(Binding(at - self._began, labels[RACK], superpod, node))
            if stay.started < math.inf:
                heapq.heappush(self._ends, (stay.started + stay.arrival.life, gang))
        return bool(taken)

    def _end(self, caller: Caller, gang: str) -> None:
        """Delete a gang: the Job first, that it makes no Pods again."""
        base = f"namespaces/{self._namespace}"
        _require(caller.send("DELETE", f"/apis/batch/v1/{base}/jobs/{gang}", {"propagationPolicy": "Background"}))
        _require(caller.send("DELETE", f"/api/v1/{base}/pods?labelSelector=app%3D{gang}"))
        self._stays[gang].ended = self._now()


def _require(answer: Answer) -> None:
    if answer.code >= 300:
        raise LoadError(f"the API server answers {answer.code}: {answer.body.get('message', answer.body)}")
