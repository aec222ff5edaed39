"""Faults of processes: one that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from faults.calls import calling, probing
from faults.process import Process
from faults.resources import family
from faults.reviews import GUARD
from faults.row import Result, broken
from faults.site import Site

_WORKERS = 2
_CALLERS = 8


def dying_worker(site: Site) -> Result:
    """One of two workers is killed under 200 reviews a second.

    At most the calls that it had open are lost, the other worker goes on, and another one takes its place.
    """
    with Process(site.directory(), listen={"workers": _WORKERS}) as process:
        process.wait_until_ready()
        return asyncio.run(_dying(process))


async def _dying(process: Process) -> Result:
    before = _workers(process)
    async with calling(process, GUARD, 200, callers=_CALLERS) as calls, probing(process) as alive:
        await asyncio.sleep(2)
        killed = time.monotonic()
        os.kill(before[0], signal.SIGKILL)
        while len(set(_workers(process)) - set(before)) < 1 or not process.readiness().startswith("ok"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        replaced = time.monotonic()
        await asyncio.sleep(3)
    return Result(
        seen=f"answers p99 {calls.p99 * 1e3:.0f} ms, the slowest {calls.slowest * 1e3:.0f} ms; ready with another "
        f"worker after {replaced - killed:.1f} s",
        lost=calls.summary,
        healthy=max(calls.healthy_after(killed), replaced - killed),
        broken=broken(
            {
                "no more lost than there were connections": calls.lost.total() <= _CALLERS,
                "no wrong verdict": not calls.wrong,
                "/livez answers": not alive.lost,
            }
        ),
    )


def _workers(process: Process) -> list[int]:
    """The ids of the workers: the children of the process."""
    return family(process.pid)[1:]
