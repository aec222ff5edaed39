"""Reloads of many policies while reviews arrive at a steady rate: lost reviews, their latency, and the duration."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks import policysets, servers
from benchmarks.bodies import REAL, body
from benchmarks.load import LoadError
from benchmarks.paced import Answered, Load
from benchmarks.report import Figure
from benchmarks.servers import Listening
from benchmarks.speed import cores, pinned

PATH = "/validate"
RATE = 200  # reviews a second, a small part of what the service can do with these policies
WARM_UP = 1.0
QUIET = 4.0  # seconds before the first change and after the last
LIMIT = 60.0  # seconds that a reload may take
ADDED_MILLISECONDS = 50


class Reload(NamedTuple):
    """began: before the first file changed. changed: after the last change. ended: when all changes were in force."""

    began: float
    changed: float
    ended: float

    @property
    def seconds(self) -> float:
        """Seconds from the last change on, including 0.4 s of waiting for more changes."""
        return self.ended - self.changed


class Measurement(NamedTuple):
    """lost: reviews without an answer, or with an answer that does not admit the Pod."""

    answered: Sequence[Answered]
    lost: int
    every: Reload
    one: Reload

    def longest(self, reload: Reload | None) -> float:
        """The longest latency during a reload, or in the quiet times if none is given."""
        chosen = [each for each in self.answered if self._of(each) is reload]
        return max(each.latency for each in chosen)

    def _of(self, answered: Answered) -> Reload | None:
        for reload in (self.every, self.one):
            if answered.due <= reload.ended and answered.due + answered.latency >= reload.began:
                return reload
        return None


def measure(directory: Path, say: Callable[[str], None]) -> Measurement:
    """Change all files, then one. directory: where the certificate is. Raises LoadError, ProcessError, NoCoresError."""
    server_core, load_core = cores()
    policies = policysets.thousand(directory / "reloaded")
    options = policysets.options([policies])
    with pinned(load_core), servers.service(directory, *options, cores={server_core}) as listening:
        say(f"reloads of {policysets.MANY} policies at {RATE} reviews a second")
        gc.collect()
        gc.disable()  # a pause here would be counted as the server's
        try:
            return uvloop.run(_measure(listening, policies))
        finally:
            gc.enable()


async def _measure(listening: Listening, policies: Path) -> Measurement:
    load = Load()
    await load.connect(listening.port, PATH, body(PATH, REAL))
    asking = asyncio.create_task(load.ask(repeat(1 / RATE)))
    await asyncio.sleep(WARM_UP)
    load.answered.clear()  # connections and functions were made at first use
    await asyncio.sleep(QUIET)
    every = await _reload(policies, 1, listening.server.log)
    await asyncio.sleep(QUIET)
    one = await _reload(policies / f"{policysets.PREFIX}other-500.yaml", 2, listening.server.log)
    await asyncio.sleep(QUIET)
    asking.cancel()
    lost = await load.end()
    return Measurement(load.answered, lost, every, one)


async def _reload(path: Path, number: int, log: Path) -> Reload:
    """Change a file, or all in a directory, and wait until the policies in them are in force. Raises LoadError."""
    missing, known = await asyncio.to_thread(lambda: (policysets.names(path), log.stat().st_size))
    began = time.perf_counter()
    changing = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.policysets", str(path), str(number)
    )
    await changing.wait()
    changed = time.perf_counter()
    while missing - _loaded(log, known):
        if time.perf_counter() > changed + LIMIT:
            raise LoadError(f"changed policies were not loaded within {LIMIT:.0f} s")
        await asyncio.sleep(0.02)
    return Reload(began, changed, time.perf_counter())


def _loaded(log: Path, known: int) -> set[str]:
    """The policies that were loaded according to the log, from an offset on."""
    lines = log.read_bytes()[known:].splitlines()
    events = [json.loads(line) for line in lines if line.endswith(b"}")]
    return {name for event in events if event["event"] == "policies loaded" for name in event["changed"]}


def figures(measurement: Measurement) -> Iterator[Figure]:
    """The effect of reloads on reviews, and how long reloads take."""
    quiet = measurement.longest(None)
    name = f"reload of {policysets.MANY:,} policies"
    yield Figure(f"{name}: reviews lost of {len(measurement.answered) + measurement.lost:,}", measurement.lost, 0)
    for what, reload in ((name, measurement.every), ("reload of one of them", measurement.one)):
        yield Figure(what, reload.seconds, unit=" s")
        longest = measurement.longest(reload)
        note = f"({longest * 1e3:.0f} ms, {quiet * 1e3:.0f} ms without)"
        added = max(0.0, longest - quiet) * 1e3
        yield Figure(f"{what}: longest latency, added", added, ADDED_MILLISECONDS, unit=" ms", note=note)
