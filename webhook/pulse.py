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
    """A block in which every run of the garbage collector is counted and timed."""
    runs = [metrics.collections.labels(str(generation)) for generation in range(3)]
    pauses = [metrics.collection_seconds.labels(str(generation)) for generation in range(3)]
    started = 0.0

    def observe(phase: str, info: dict[str, int]) -> None:
        nonlocal started
        if phase == "start":
            started = time.perf_counter()
        else:
            runs[info["generation"]].inc()
            pauses[info["generation"]].inc(time.perf_counter() - started)

    gc.callbacks.append(observe)
    try:
        yield
    finally:
        gc.callbacks.remove(observe)
