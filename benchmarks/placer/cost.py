"""The cost of the placer with 10,000 Nodes and 100,000 Pods: its memory, its looks, and each operation."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.placer.crowd import NODES, PODS, WAITING
from benchmarks.report import Figure

MEMORY = 300  # MB
LOOK = 20  # milliseconds
UPDATE = 100  # microseconds


class Measurement(NamedTuple):
    """memory: megabytes of the whole process, by what it holds. looks: milliseconds, p50 and p99, by what they do.

    times: microseconds by operation.
    """

    memory: Mapping[str, float]
    looks: Mapping[str, Mapping[str, float]]
    times: Mapping[str, float]


def measure(say: Callable[[str], None]) -> Measurement:
    """Fill a placer in a process of its own, whose memory counts. Raises CalledProcessError."""
    say(f"a placer with {NODES} Nodes and {PODS} Pods, and {WAITING} gangs that wait")
    command = [sys.executable, "-m", "benchmarks.placer.crowd"]
    return Measurement(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def table(measurement: Measurement) -> Iterator[str]:
    """The memory, and the time of looks and operations."""
    yield f"Placer with {NODES} Nodes and {PODS} Pods, and {WAITING} gangs that wait"
    for name, megabytes in measurement.memory.items():
        yield f"  {'memory ' + name:<44}{megabytes:>10.0f} MB"
    for name, spread in measurement.looks.items():
        yield f"  {'a look, ' + name:<44}{spread['p50']:>10.1f} ms, p99 {spread['p99']:.1f}"
    for name, microseconds in measurement.times.items():
        yield f"  {name:<44}{microseconds:>10.1f} us"


def figures(measurement: Measurement) -> Iterator[Figure]:
    """What it must not exceed."""
    yield Figure(f"the placer's memory with {PODS} Pods", measurement.memory["after all looks"], MEMORY, unit=" MB")
    for name in ("opens 8 Pods", "opens 512 Pods", "after a Pod has finished"):
        yield Figure(f"a look, {name}, p99", measurement.looks[name]["p99"], LOOK, unit=" ms")
    for name in ("put a Pod", "remove a Pod"):
        yield Figure(name, measurement.times[name], UPDATE, unit=" us")


def as_json(measurement: Measurement) -> dict[str, Any]:
    """All of it, as it is."""
    return measurement._asdict()
