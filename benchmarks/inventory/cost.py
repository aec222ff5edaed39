"""The cost of the inventory of 10,000 Nodes and 100,000 Pods: memory of a process that holds it, and each operation."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.inventory.crowd import NODES, PODS
from benchmarks.report import Figure

MEMORY = 300  # MB
UPDATE = 100  # microseconds
QUESTION = 1000  # microseconds


class Measurement(NamedTuple):
    """memory: megabytes of the whole process, by what it holds. times: microseconds by operation."""

    memory: Mapping[str, float]
    times: Mapping[str, float]


def measure(say: Callable[[str], None]) -> Measurement:
    """Fill an inventory in a process of its own, whose memory counts. Raises CalledProcessError."""
    say(f"an inventory of {NODES} Nodes and {PODS} Pods")
    command = [sys.executable, "-m", "benchmarks.inventory.crowd"]
    return Measurement(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def table(measurement: Measurement) -> Iterator[str]:
    """The memory and the time of each operation."""
    yield f"Inventory of {NODES} Nodes and {PODS} Pods"
    for name, megabytes in measurement.memory.items():
        yield f"  {'memory ' + name:<44}{megabytes:>10.0f} MB"
    for name, microseconds in measurement.times.items():
        yield f"  {name:<44}{microseconds:>10.1f} us"


def figures(measurement: Measurement) -> Iterator[Figure]:
    """What it must not exceed."""
    yield Figure(f"memory with {PODS} Pods", measurement.memory["with Nodes and Pods"], MEMORY, unit=" MB")
    for name in ("put a Pod", "remove a Pod", "cordon a Node"):
        yield Figure(name, measurement.times[name], UPDATE, unit=" us")
    for name in ("eligible Nodes, after 1,000 changes", "eligible Nodes, again", "free GPUs", "domains of a level"):
        yield Figure(name, measurement.times[name], QUESTION, unit=" us")


def as_json(measurement: Measurement) -> dict[str, Any]:
    """Both, as they are."""
    return measurement._asdict()
