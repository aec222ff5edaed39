"""Faults of too much, or of too little room: large reviews, slow callers, no descriptors, no disk."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from support.builders import pod
from support.service.reviews import body
from support.service.wire import connected, head

from faults.calls import BROKEN, calling, probing, reason
from faults.documents import GUARD, Review
from faults.process import Process
from faults.resources import MEGABYTE, Memory, chart_limit, descriptors, limited
from faults.site import Site
from faults.table import Result, broken

_LARGE = 60
_LARGE_SECONDS = 300.0
_AGAIN_SECONDS = 3.0  # more often, and this process has no time for the guard's calls
_SLOW = 600
_DESCRIPTORS = 128


def large_reviews(site: Site) -> Result:
    """Sixty reviews of 3 MB at once, each tried again until it is answered, under the memory limit of the chart.

    The process lives, every review is answered in the end, the guard has no wrong verdict, and its p99 is under 1 s.
    """
    directory = site.directory()
    with limited(chart_limit()) as memory, Process(directory) as process:
        memory.hold(process.pid)
        process.wait_until_ready()
        return asyncio.run(_large(process, memory))


async def _large(process: Process, memory: Memory) -> Result:
    statuses: Counter[str] = Counter()
    review = _large_review()
    began = time.monotonic()
    async with calling(process, GUARD, 20) as guard:
        try:
            async with asyncio.timeout(_LARGE_SECONDS):
                await asyncio.gather(*(_tried(process, review, statuses) for _ in range(_LARGE)))
        except TimeoutError:
            pass
        took = time.monotonic() - began
    peak = memory.peak()
    told = ", ".join(f"{count} times {what}" for what, count in statuses.most_common())
    return Result(
        seen=f"{told} in {took:.0f} s; {peak.size // MEGABYTE} of {chart_limit() // MEGABYTE} MiB at most "
        f"({peak.limit}); guard p99 {guard.p99 * 1e3:.0f} ms",
        lost=guard.summary,
        healthy=guard.healthy_after(began),
        slow=guard.slow("guard"),
        promises={
            "every review is answered": statuses["answered"] == _LARGE,
            "peak below the chart's limit": peak.size < chart_limit() and not peak.killed,
            "the process lives": process.child.poll() is None,
            "the guard answers": bool(guard.seconds),
            "no wrong verdict of the guard": not guard.wrong,
        },
    )


def _large_review() -> Review:
    """A review of 3 MB of which a rule reads everything, and which takes many times that when it is decoded."""
    metadata = {"name": "x", "annotations": {"kai.scheduler/topology": "coreweave"}}
    sent = body(pod(metadata=metadata, affinity={"x": [[{}]] * 500_000}))
    assert 2_900_000 < len(sent) < 3_200_000, len(sent)
    return Review(sent, "/validate?timeout=30s", allowed=True)


async def _tried(process: Process, review: Review, statuses: Counter[str]) -> None:
    """Send a review until it is answered, as a client does that obeys Retry-After."""
    while True:
        try:
            async with connected(process.port, process.context) as wire:
                status = (await wire.call(review.body, review.path)).status
        except BROKEN as error:
            statuses[reason(error)] += 1
        else:
            statuses["answered" if status == 200 else f"HTTP {status}"] += 1
            if status == 200:
                return
        await asyncio.sleep(_AGAIN_SECONDS)


def slow_connections(site: Site) -> Result:
    """Six hundred connections from one address, each of which announces a body of 5 MB and sends one byte of it.

    The guard answers whoever comes, on connections from before and on new ones, p99 under 1 s; the process is alive.
    """
    with Process(site.directory()) as process:
        process.wait_until_ready()
        return asyncio.run(_slow(process))


async def _slow(process: Process) -> Result:
    async with (
        calling(process, GUARD, 50) as guard,
        calling(process, GUARD, 10, callers=1, keep=False) as newcomers,
        probing(process) as alive,
    ):
        began = time.monotonic()
        async with standing(process, _SLOW, head("/validate/labels?timeout=30s", 5_000_000) + b"{") as held:
            await asyncio.sleep(10)
            ended = sum(each.done() for each in held)
        await asyncio.sleep(2)
    return Result(
        seen=f"guard p99 {guard.p99 * 1e3:.0f} ms, on a new connection each time {newcomers.p99 * 1e3:.0f} ms; /livez "
        f"at most {alive.slowest * 1e3:.0f} ms; of the slow connections {ended} were ended within 10 s",
        lost=f"{guard.summary}; of newcomers {newcomers.summary}",
        healthy=max(guard.healthy_after(began), newcomers.healthy_after(began)),
        slow=(*guard.slow("guard"), *newcomers.slow("guard on new connections")),
        promises={
            "no call of the guard is lost": not guard.lost and not newcomers.lost,
            "no wrong verdict": not guard.wrong and not newcomers.wrong,
            "/livez answers": not alive.lost,
        },
    )


def out_of_descriptors(site: Site) -> Result:
    """A process that may open 128 files and connections, and 400 callers who connect and say nothing.

    Calls on connections from before go on, p99 under 1 s, no verdict is wrong, and a second after the crowd has gone
    all is well.
    """
    with Process(site.directory()) as process:
        process.wait_until_ready()
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        return asyncio.run(_descriptors(process))


async def _descriptors(process: Process) -> Result:
    async with calling(process, GUARD, 50) as guard, calling(process, GUARD, 5, callers=1, keep=False) as newcomers:
        await asyncio.sleep(2)
        async with standing(process, 400, b""):
            await asyncio.sleep(10)
            most = descriptors(process.pid)
        ended = time.monotonic()
        await asyncio.sleep(5)
    return Result(
        seen=f"{most} of {_DESCRIPTORS} descriptors in use; guard on connections from before p99 "
        f"{guard.p99 * 1e3:.0f} ms; newcomers: {newcomers.summary}",
        lost=f"on connections from before {guard.summary}",
        healthy=max(guard.healthy_after(ended), newcomers.healthy_after(ended)),
        slow=(*guard.slow("guard"), *broken({"healthy a second after": newcomers.healthy_after(ended) < 1})),
        promises={
            "calls on connections from before go on": not guard.lost,
            "no wrong verdict": not guard.wrong and not newcomers.wrong,
            "the process lives": process.child.poll() is None,
        },
    )


def full_disk(site: Site) -> Result:
    """The disk for logs is full from the start: every line that is logged fails with `ENOSPC`.

    The service starts, answers every call rightly, p99 under 1 s, and stays ready.
    """
    with Process(site.directory(), log=Path("/dev/full")) as process:
        process.wait_until_ready()
        return asyncio.run(_unlogged(process, "with a full disk", site.sizes.seconds))


def unread_logs(site: Site) -> Result:
    """Nobody reads the pipe to which the service logs, as where the container runtime hangs.

    The service answers every call rightly, p99 under 1 s, and stays ready.
    """
    reading, writing = os.pipe()
    try:
        with Process(site.directory(), log=Path(f"/dev/fd/{writing}")) as process:
            process.wait_until_ready()
            return asyncio.run(_unlogged(process, "with a full pipe", site.sizes.seconds))
    finally:
        os.close(reading)
        os.close(writing)


async def _unlogged(process: Process, how: str, seconds: float) -> Result:
    """What becomes of calls of which each is logged, or would be."""
    async with calling(process, GUARD, 100) as guard, probing(process) as alive:
        began = time.monotonic()
        await asyncio.sleep(seconds)
    ready = process.readiness().startswith("ok")
    return Result(
        seen=f"{how} guard p99 {guard.p99 * 1e3:.0f} ms, /livez at most {alive.slowest * 1e3:.0f} ms, "
        f"{'ready' if ready else 'not ready'}",
        lost=guard.summary,
        healthy=guard.healthy_after(began),
        slow=guard.slow("guard"),
        promises={
            "no call is lost": not guard.lost and len(guard.seconds) > 10 * seconds,
            "no wrong verdict": not guard.wrong,
            "alive and ready": ready and not alive.lost,
        },
    )


@asynccontextmanager
async def standing(process: Process, count: int, sent: bytes) -> AsyncIterator[list[asyncio.Task[bool]]]:
    """Connections over which these bytes are sent and no more, held open in this block; some may not come about.

    A task for each is done when anything came back, an end or an answer.
    """
    context = process.context
    async with AsyncExitStack() as stack:
        held: list[asyncio.Task[bool]] = []

        async def connect() -> None:
            with suppress(*BROKEN):
                async with asyncio.timeout(20):
                    wire = await stack.enter_async_context(connected(process.port, context))
                    await wire.send(sent)
                held.append(asyncio.create_task(wire.ended()))

        for start in range(0, count, 50):
            await asyncio.gather(*(connect() for _ in range(start, min(start + 50, count))))
        try:
            yield held
        finally:
            for each in held:
                each.cancel()
                each.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody asks how it ended
