"""What the service needs: memory when it is idle, time until it is ready, time of the offline verbs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks import servers
from benchmarks.bodies import POD, REAL, body
from benchmarks.load import drive
from benchmarks.process import program
from benchmarks.report import Figure

NAMESPACES = 1000
RUNS = 9
LOAD_SECONDS = 2.0
SETTLE_SECONDS = 1.0


class Times(NamedTuple):
    """Seconds of several runs."""

    best: float
    median: float


def _times(runs: Sequence[float]) -> Times:
    return Times(min(runs), median(runs))


def memory(directory: Path, *options: str) -> float:
    """Memory in MB of a service that is idle again after some load on both paths."""
    with servers.service(directory, *options) as (server, port, _):
        for path in ("/mutate", "/validate"):
            drive(port, path, body(path, REAL), server, LOAD_SECONDS)
        time.sleep(SETTLE_SECONDS)
        return server.resident()


def memory_with_cluster(directory: Path) -> float:
    """The same for one that watches the NAMESPACES Namespaces of a real control plane."""
    with crowded() as cluster:
        return memory(directory, "--kubeconfig", str(cluster.kubeconfig("alice")))


@contextmanager
def crowded() -> Iterator[ControlPlane]:
    """A control plane with many Namespaces, which have the labels that a platform team would set."""
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": f"team-{number:04}",
                "labels": {
                    "app.kubernetes.io/managed-by": "platform",
                    "example.org/team": f"team-{number:04}",
                    "example.org/cost-center": str(4000 + number % 50),
                    "pod-security.kubernetes.io/enforce": "restricted",
                },
            },
        }
        for number in range(NAMESPACES)
    ]
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as cluster:
        for first in range(0, NAMESPACES, 100):
            cluster.apply(manifests[first : first + 100], "--server-side", user="admin", check=True)
        yield cluster


def start(directory: Path, runs: int) -> Times:
    """Seconds from the start of the process until /readyz says ok."""
    seconds = []
    for _ in range(runs):
        before = time.perf_counter()
        with servers.service(directory):
            seconds.append(time.perf_counter() - before)
    return _times(seconds)


def verbs(runs: int) -> dict[str, Times]:
    """Seconds that `check` takes for a Pod and `review` for one review, each in its own process."""
    commands = {"`check -f pod.yaml`": ("check", "-f", str(POD)), "`review review-real.json`": ("review", str(REAL))}
    return {name: _times([_wall(command) for _ in range(runs)]) for name, command in commands.items()}


def _wall(command: Sequence[str]) -> float:
    before = time.perf_counter()
    subprocess.run([program("cks-admission"), *command], check=True, capture_output=True)
    return time.perf_counter() - before


def measure(directory: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    """Memory and times. Raises what the servers, the control plane and the verbs raise."""
    say("memory, start, verbs")
    yield Figure("memory when idle", memory(directory), 80, unit=" MB")
    name = f"memory with a cluster of {NAMESPACES:,} Namespaces"
    yield Figure(name, memory_with_cluster(directory), 130, unit=" MB")
    times = {"ready after": (start(directory, RUNS), 1.0)} | {verb: (runs, 0.5) for verb, runs in verbs(RUNS).items()}
    for what, (runs, target) in times.items():
        yield Figure(what, runs.median, target, unit=" s", note=f"(best {runs.best:.2f} s of {RUNS})")
