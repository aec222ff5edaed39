"""What was measured every few seconds, as rows of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    """One interval. seconds: since the beginning; rate: answers a second; p50, p99, slowest: in milliseconds.

    memory: MiB of each replica; descriptors: open files and connections of each. events: what was done in it.
    """

    seconds: float
    rate: float
    p50: float
    p99: float
    slowest: float
    lost: int
    wrong: int
    memory: tuple[float, ...]
    descriptors: tuple[int, ...]
    events: tuple[str, ...] = ()


def write(path: Path, samples: Sequence[Sample]) -> None:
    """Write them to a file, with a header."""
    replicas = range(1, len(samples[0].memory) + 1)
    head = [*Sample._fields[:7], *(f"memory {n}" for n in replicas), *(f"descriptors {n}" for n in replicas), "events"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(_cells(sample) for sample in samples)


def middle(values: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _cells(sample: Sample) -> Iterable[object]:
    numbers = (sample.seconds, sample.rate, sample.p50, sample.p99, sample.slowest)
    yield from (f"{number:.1f}" for number in numbers)
    yield from (sample.lost, sample.wrong)
    yield from (f"{size:.1f}" for size in sample.memory)
    yield from sample.descriptors
    yield "; ".join(sample.events)
