"""Times an operation as benchmarks/cel/reference does, so that the figures can be compared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median

REPEATS = 7
MINIMUM_SECONDS = 0.1  # of one repeat


def measure(name: str, operation: Callable[[], object], operations: int = 1) -> None:
    """Print the nanoseconds of one operation: the minimum and the median of the repeats. A call does several."""
    times = nanoseconds(operation, operations)
    write(name, nanoseconds_per_operation=min(times), median_nanoseconds_per_operation=median(times))


def nanoseconds(operation: Callable[[], object], operations: int = 1) -> list[float]:
    """The nanoseconds of one operation, for each repeat. A call does several."""
    calls = _enough(operation)
    return [_seconds(operation, calls) / (calls * operations) * 1e9 for _ in range(REPEATS)]


def write(name: str, **values: float | str) -> None:
    """Print a line of JSON."""
    print(json.dumps({"name": name, **values}), flush=True)


def _enough(operation: Callable[[], object]) -> int:
    """How many calls take long enough to be timed. Finding out also warms up."""
    calls = 1
    while _seconds(operation, calls) < MINIMUM_SECONDS:
        calls *= 2
    return calls


def _seconds(operation: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        operation()
    return time.perf_counter() - start
