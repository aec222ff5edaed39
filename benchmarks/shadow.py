"""Admission beside shadow policies: the same service with them, without them, and without them once more."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import uvloop

from benchmarks import policysets, servers
from benchmarks.bodies import REAL, body
from benchmarks.load import LoadError, drive
from benchmarks.paced import Load
from benchmarks.report import Figure
from benchmarks.servers import Listening
from benchmarks.speed import cores, pinned

PATH = "/validate"
SIMPLE = 10  # beside the twenty
ALONE, SHADOW, CONTROL = "without a shadow", "with a shadow of 30", "without, once more"
# Reviews a second that the shadow's share is nearly used up by; and as many as the service can answer.
RATE = 400
SOME, ALL = f"{RATE}/s", "all it can"
SECONDS = 4.0
WARM_UP = 0.5
P99 = 1.1
_COUNTER = "cks_admission_shadow_reviews_total"


class Run(NamedTuple):
    """Latencies and processor time of one review, in seconds. shadow: what became of reviews there."""

    p50: float
    p99: float
    cpu: float
    shadow: Mapping[str, int]


Rounds = Mapping[str, Mapping[str, Sequence[Run]]]
"""The runs of each service at each rate, one per round."""


class Measurement(NamedTuple):
    """All runs."""

    rounds: Rounds

    def ratio(self, rate: str, name: str, field: str = "p99") -> float:
        """That of a service to the one without a shadow, the median of the rounds."""
        pairs = zip(self.rounds[rate][name], self.rounds[rate][ALONE], strict=True)
        return median(float(getattr(one, field)) / float(getattr(other, field)) for one, other in pairs)


def measure(directory: Path, rounds: int, _seconds: float, say: Callable[[str], None]) -> Measurement:
    """Run the rounds. directory: where the certificate is. Raises LoadError, ProcessError or NoCoresError."""
    server_core, load_core = cores()
    own = policysets.options([policysets.few(directory / "own")])
    tried = (policysets.twenty(directory / "tried"), policysets.matching(directory / "simple", SIMPLE))
    shadow = [option for path in tried for option in ("--shadow", str(path))]
    samples: dict[str, dict[str, list[Run]]] = {rate: {ALONE: [], SHADOW: [], CONTROL: []} for rate in (SOME, ALL)}
    with ExitStack() as stack:
        stack.enter_context(pinned(load_core))
        running = {
            name: stack.enter_context(
                servers.service(directory, *own, *(shadow if name == SHADOW else ()), cores={server_core})
            )
            for name in (ALONE, SHADOW, CONTROL)
        }
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for rate, of_rate in samples.items():
                for name in sorted(running, reverse=number % 2 == 1):
                    of_rate[name].append(_run(running[name], rate, number))
    if not all(run.shadow.get("judged") for of_rate in samples.values() for run in of_rate[SHADOW]):
        raise LoadError("the shadow policies were asked about nothing")
    return Measurement(samples)


def _run(listening: Listening, rate: str, seed: int) -> Run:
    """One run. Raises LoadError."""
    before, sent = _shadow(listening), body(PATH, REAL)
    if rate == ALL:
        sample = drive(listening.port, PATH, sent, listening.server, SECONDS)
        p50, p99, cpu = sample.p50, sample.p99, sample.cpu
    else:
        gc.collect()
        gc.disable()  # a pause here would be counted as the server's
        try:
            p50, p99, cpu = uvloop.run(_paced(listening, sent, Random(seed)))  # noqa: S311 - no secret
        finally:
            gc.enable()
    return Run(
        p50, p99, cpu, {outcome: times - before.get(outcome, 0) for outcome, times in _shadow(listening).items()}
    )


async def _paced(listening: Listening, sent: bytes, random: Random) -> tuple[float, float, float]:
    """Two latencies and the processor time, with random times between reviews. Raises LoadError."""
    load = Load()
    await load.connect(listening.port, PATH, sent)
    gaps = iter(lambda: random.expovariate(RATE), None)
    await load.ask(islice(gaps, int(RATE * WARM_UP)))
    load.answered.clear()
    before = listening.server.seconds()
    await load.ask(islice(gaps, int(RATE * SECONDS)))
    if lost := await load.end():
        raise LoadError(f"{lost} reviews were lost or not admitted")
    latencies = sorted(answered.latency for answered in load.answered)
    count = len(latencies)
    return latencies[count // 2], latencies[count * 99 // 100], (listening.server.seconds() - before) / count


def _shadow(listening: Listening) -> dict[str, int]:
    """What became of the reviews for shadow policies until now, from the metrics."""
    connection = HTTPConnection("127.0.0.1", listening.health, timeout=10)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    found = (line.removeprefix(f'{_COUNTER}{{outcome="').split('"} ') for line in lines if line.startswith(_COUNTER))
    return {outcome: int(float(times)) for outcome, times in found}


def figures(measurement: Measurement) -> Iterator[Figure]:
    """Whether admission suffers."""
    for rate, services in measurement.rounds.items():
        note = f"({measurement.ratio(rate, CONTROL):.2f} of the same service without one)"
        yield Figure(f"p99 with a shadow, {rate}, to without", measurement.ratio(rate, SHADOW), P99, note=note)
        judged, dropped = (sum(run.shadow.get(it, 0) for run in services[SHADOW]) for it in ("judged", "dropped"))
        share = judged / (judged + dropped)
        yield Figure(f"share that the shadow judges, {rate}", share, note=f"({judged:,} of {judged + dropped:,})")
