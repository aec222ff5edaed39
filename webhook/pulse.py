"""How the process itself is: how late its event loop is, and how long the garbage collector holds it up."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from webhook.metrics import Metrics

INTERVAL = 0.1


async def measure_lag(metrics: Metrics) -> NoReturn:
    """Observe, ten times a second, how much later than it should the event loop runs a task."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL
        await asyncio.sleep(INTERVAL)
        metrics.loop_lag.observe(max(0.0, loop.time() - due))


@contextmanager
def measured_collections(metrics: Metrics) -> Iterator[None]:
    """A block in which runs of the garbage collector are counted and timed.

    Those of generation 0 are not: there is one in every few reviews, and it takes microseconds.
    """
    runs = [metrics.collections.labels(str(generation)) for generation in (1, 2)]
    pauses = [metrics.collection_seconds.labels(str(generation)) for generation in (1, 2)]
    started = 0.0

    def observe(phase: str, info: dict[str, int]) -> None:
        nonlocal started
        generation = info["generation"]
        if not generation:
            return
        if phase == "start":
            started = time.perf_counter()
        else:
            runs[generation - 1].inc()
            pauses[generation - 1].inc(time.perf_counter() - started)

    gc.callbacks.append(observe)
    try:
        yield
    finally:
        gc.callbacks.remove(observe)
