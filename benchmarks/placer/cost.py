"""The cost of the placer with 10,000 Nodes and 100,000 Pods: its memory, its looks, and each operation."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.placer.crowd import NODES, PODS, WAITING
from benchmarks.report import Figure, markdown

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


def measure(_directory: Path, say: Callable[[str], None]) -> Measurement:
    """Fill a placer in a process of its own, whose memory counts. Raises CalledProcessError."""
    say(f"a placer with {NODES} Nodes and {PODS} Pods, and {WAITING} gangs that wait")
    command = [sys.executable, "-m", "benchmarks.placer.crowd"]
    return Measurement(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def table(measurement: Measurement) -> Iterator[str]:
    """The memory, and the time of looks and operations."""
    looks = [
        (f"a look, {name}", f"{it['p50']:.1f} ms", f"{it['p99']:.1f} ms") for name, it in measurement.looks.items()
    ]
    times = [(name, f"{microseconds:.1f} µs", "") for name, microseconds in measurement.times.items()]
    memory = [(f"memory {name}", f"{megabytes:.0f} MB", "") for name, megabytes in measurement.memory.items()]
    head = f"{NODES:,} Nodes, {PODS:,} Pods, {WAITING} gangs that wait"
    yield from markdown((head, "p50", "p99"), [*looks, *times, *memory])


def figures(measurement: Measurement) -> Iterator[Figure]:
    """What it must not exceed."""
    yield Figure(f"the placer's memory with {PODS} Pods", measurement.memory["after all looks"], MEMORY, unit=" MB")
    for name in ("opens 8 Pods", "opens 512 Pods", "after a Pod has finished"):
        yield Figure(f"a look, {name}, p99", measurement.looks[name]["p99"], LOOK, unit=" ms")
    for name in ("put a Pod", "remove a Pod"):
        yield Figure(name, measurement.times[name], UPDATE, unit=" µs")
