"""The cost of the placer with 10,000 Nodes and 100,000 Pods: its memory, its looks, and each operation."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.placer.crowd import FIRST, NODES, PODS, WAITING
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


def measure(_directory: Path, say: Callable[[str], None]) -> Measurement:
    """Fill a placer in a process of its own, whose memory counts. Raises CalledProcessError."""
    say(f"a placer with {NODES} Nodes and {PODS} Pods, and {WAITING} gangs that wait")
    command = [sys.executable, "-m", "benchmarks.placer.crowd"]
    return Measurement(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def figures(measurement: Measurement) -> Iterator[Figure]:
    """The memory, and the time of looks and operations."""
    for name, megabytes in measurement.memory.items():
        target = MEMORY if name == "after all looks" else None
        yield Figure(f"memory {name}", megabytes, target, unit=" MB")
    for name, look in measurement.looks.items():
        target = None if name == FIRST else LOOK
        yield Figure(f"a look, {name}: p99", look["p99"], target, unit=" ms", note=f"(p50 {look['p50']:.1f} ms)")
    for name, microseconds in measurement.times.items():
        yield Figure(name, microseconds, UPDATE, unit=" µs")
