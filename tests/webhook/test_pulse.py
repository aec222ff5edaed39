"""What the process measures about itself."""

from __future__ import annotations

import asyncio
import gc
import time

from support.patience import until

from webhook.metrics import Metrics
from webhook.serve import measure_lag, measured_collections


def _value(metrics: Metrics, name: str, **labels: str) -> float:
    value = metrics.registry.get_sample_value(name, labels)
    return 0.0 if value is None else value


async def test_the_lag_of_the_event_loop_is_seen() -> None:
    """Work that holds up the event loop is measured with at least most of its time."""
    metrics = Metrics()
    measuring = asyncio.create_task(measure_lag(metrics))
    name = "cks_admission_loop_lag_seconds"
    await until(lambda: _value(metrics, f"{name}_count") >= 1)
    before = _value(metrics, f"{name}_sum")

    time.sleep(0.5)  # noqa: ASYNC251 - this is what is measured
    count = _value(metrics, f"{name}_count")
    await until(lambda: _value(metrics, f"{name}_count") > count)
    measuring.cancel()

    assert _value(metrics, f"{name}_sum") - before >= 0.3


def test_runs_of_the_garbage_collector_are_counted() -> None:
    """Each run counts in its generation, within the block only."""
    metrics = Metrics()
    names = "cks_admission_gc_collections_total", "cks_admission_gc_seconds_total"
    with measured_collections(metrics):
        for _ in range(3):
            gc.collect()
    runs, seconds = (_value(metrics, name, generation="2") for name in names)
    gc.collect()

    assert runs >= 3
    assert seconds > 0
    assert (runs, seconds) == tuple(_value(metrics, name, generation="2") for name in names)
