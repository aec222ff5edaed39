"""The service against the echo, in interleaved rounds on one core each, so that disturbances affect both alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import servers
from benchmarks.bodies import REVIEWS, body, of_controller
from benchmarks.load import Sample, drive
from benchmarks.report import Figure
from benchmarks.servers import Listening

PATHS = ("/mutate", "/validate")
FIELDS = ("capacity", "p99")
# A Pod at `/mutate` is looked at by two rules, one at `/validate` by all of them.
THROUGHPUT = {"/mutate": 0.85, "/validate": 0.7}
P99 = 1.5
# A pair in which a server had less than this share of its core is measured again, up to this many attempts.
UNDISTURBED = 0.95
ATTEMPTS = 3


class NoCoresError(Exception):
    """Server and load need one core each, and there is only one."""


class Comparison(NamedTuple):
    """The samples of one path with one review, a pair per round. review: small, real, or one of a controller's Pod."""

    review: str
    size: int
    path: str
    echo: list[Sample]
    service: list[Sample]

    @property
    def name(self) -> str:
        """What the tables call it."""
        whose = " of a ReplicaSet" if self.review == "controller's" else ""
        return f"`{self.path}`, {self.size / 1e3:.0f} KB{whose}"

    def ratio(self, field: str) -> float:
        """The ratio of service to echo, the median of the rounds' ratios."""
        return median(s.figure(field) / e.figure(field) for s, e in zip(self.service, self.echo, strict=True))


def middle(samples: Sequence[Sample], field: str) -> float:
    """The median of the rounds."""
    return median(sample.figure(field) for sample in samples)


def cores() -> tuple[int, int]:
    """The cores for the server and for the load. Raises NoCoresError if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise NoCoresError("The server and the load need a core each, and this process may use one only.")
    return usable[0], usable[1]


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep this process to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> list[Comparison]:
    """Run the rounds. directory: where the certificate is. Raises LoadError, ProcessError or NoCoresError."""
    server_core, load_core = cores()
    bodies = {(review, path): body(path, file) for review, file in REVIEWS.items() for path in PATHS}
    bodies["controller's", "/validate"] = of_controller(bodies["real", "/validate"])
    comparisons = [Comparison(review, len(sent), path, [], []) for (review, path), sent in bodies.items()]
    with (
        pinned(load_core),
        servers.echo(directory, cores={server_core}) as echo,
        servers.service(directory, cores={server_core}) as service,
    ):
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for comparison in comparisons:
                sent = bodies[comparison.review, comparison.path]
                first, second = (echo, service) if number % 2 == 0 else (service, echo)
                pair = _pair(first, second, comparison.path, sent, seconds)
                comparison.echo.append(pair[echo.port])
                comparison.service.append(pair[service.port])
    return comparisons


def _pair(first: Listening, second: Listening, path: str, sent: bytes, seconds: float) -> dict[int, Sample]:
    """A run of each server by its port, one right after the other: the least disturbed of several attempts."""
    best: dict[int, Sample] = {}
    for _ in range(ATTEMPTS):
        pair = {target.port: drive(target.port, path, sent, target.server, seconds) for target in (first, second)}
        if not best or _quiet(pair) > _quiet(best):
            best = pair
        if _quiet(best) >= UNDISTURBED:
            break
    return best


def _quiet(pair: dict[int, Sample]) -> float:
    return min(sample.server_busy for sample in pair.values())


def figures(comparisons: Sequence[Comparison]) -> Iterator[Figure]:
    """The ratios of throughput per core and of p99, for each comparison."""
    for comparison in comparisons:
        pairs = [[middle(samples, field) for samples in (comparison.service, comparison.echo)] for field in FIELDS]
        (rate, of_echo), (p99, echo_p99) = pairs
        target, note = THROUGHPUT[comparison.path], f"({rate:,.0f} to {of_echo:,.0f} a second)"
        name = f"{comparison.name}: reviews a second, to the echo"
        yield Figure(name, comparison.ratio("capacity"), target, at_least=True, note=note)
        note = f"({p99 * 1e3:.1f} to {echo_p99 * 1e3:.1f} ms)"
        yield Figure(f"{comparison.name}: p99, to the echo", comparison.ratio("p99"), P99, note=note)
