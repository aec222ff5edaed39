"""One worker against two, both free to use every core: the gain from a second worker if reviews are expensive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import policysets, servers
from benchmarks.bodies import REAL, body
from benchmarks.load import Sample, drive
from benchmarks.process import Family
from benchmarks.report import Figure
from benchmarks.speed import cores, middle

PATH = "/validate"
ONE, TWO = 1, 2
TARGET = 1.5  # of 2, since the load needs a part of the second core

Rounds = Mapping[int, Sequence[Sample]]
"""The samples by the number of workers, one per round."""


def compare(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Rounds:
    """Run the rounds, each with new connections, because the kernel distributes connections over the workers.

    directory: where the certificate is. Raises LoadError, ProcessError or NoCoresError.
    """
    cores()  # with one core a second worker gains nothing
    sent = body(PATH, REAL)
    policies = policysets.options((policysets.PACKS, policysets.twenty(directory / "workers")))
    samples: dict[int, list[Sample]] = {ONE: [], TWO: []}
    with ExitStack() as stack:
        running = {
            number: stack.enter_context(servers.service(directory, *policies, "--workers", str(number)))
            for number in samples
        }
        for turn in range(rounds):
            say(f"round {turn + 1} of {rounds}")
            for number in sorted(samples, reverse=turn % 2 == 1):
                listening = running[number]
                clock = Family(listening.server.child.pid)
                samples[number].append(drive(listening.port, PATH, sent, clock, seconds))
    return samples


def figures(rounds: Rounds) -> Iterator[Figure]:
    """The ratio of two workers to one, the median of the rounds' ratios, with its target."""
    each = [two.rate / one.rate for one, two in zip(rounds[ONE], rounds[TWO], strict=True)]
    note = f"({min(each):.2f} to {max(each):.2f})"
    yield Figure(f"rate of {PATH} real, 2 workers to 1", median(each), TARGET, at_least=True, note=note)


def table(rounds: Rounds) -> Iterator[str]:
    """The medians behind the ratio."""
    yield f"{'workers':<30}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'cores':>9}{'load':>7}"
    for number, samples in rounds.items():
        fields = ("rate", "p50", "p99", "cpu", "server_busy", "load_busy")
        rate, p50, p99, cpu, busy, load = (middle(list(samples), field) for field in fields)
        yield (
            f"  {number:<28}{rate:>12.0f}{p50 * 1e3:>9.2f}{p99 * 1e3:>9.2f}{cpu * 1e6:>9.0f}{busy:>9.2f}{load:>7.0%}"
        )


def as_json(rounds: Rounds) -> dict[str, Any]:
    """All figures, each round included."""
    return {str(number): [sample._asdict() for sample in samples] for number, samples in rounds.items()}
