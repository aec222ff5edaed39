"""Faults of what is evaluated: policies that take long."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from faults import documents
from faults.calls import BROKEN, SECONDS, calling, looping, probing, reason
from faults.process import Process
from faults.reviews import GUARD
from faults.row import Result, broken
from faults.site import Site

_SECONDS = 15.0
_CALLERS = 4
_KEYS = 340  # 5 KB
_UNANSWERED = "without an answer"


def stall(site: Site) -> Result:
    """Eight quadratic policies meet a ConfigMap of 5 KB, which four callers write again and again.

    99 of 100 answers of the guard within 50 ms, every probe of `/livez` within 100 ms, and no other write refused.
    """
    directory = site.directory()
    with Process(directory, policies={"directories": documents.quadratic(directory)}) as process:
        process.wait_until_ready()
        return asyncio.run(_stall(process))


async def _stall(process: Process) -> Result:
    answers: Counter[str] = Counter()
    async with calling(process, GUARD, 100) as before:
        await asyncio.sleep(3)
    writes = [_write(process, f"team-{number}", answers) for number in range(_CALLERS)]
    began = time.monotonic()
    async with calling(process, GUARD, 100) as guard, probing(process) as alive, looping(writes):
        await asyncio.sleep(_SECONDS)
    heavy = ", ".join(f"{count} {what}" for what, count in answers.most_common())
    return Result(
        seen=f"guard p99 {guard.p99 * 1e3:.0f} ms (slowest {guard.slowest * 1e3:.0f} ms; p99 before the fault "
        f"{before.p99 * 1e3:.0f} ms), /livez at most {alive.slowest * 1e3:.0f} ms; the heavy writes: {heavy or 'none'}",
        lost=guard.summary,
        healthy=guard.healthy_after(began),
        slow=(*guard.slow("guard", 0.05), *broken({"/livez under 100 ms": alive.slowest < 0.1})),
        broken=broken(
            {
                "/livez answers": bool(alive.seconds) and not alive.lost,
                "no write lost or misjudged": guard.flawless,
                "a heavy write is answered": not all(what.startswith(_UNANSWERED) for what in answers),
            }
        ),
    )


async def _write(process: Process, namespace: str, answers: Counter[str]) -> None:
    """Write the ConfigMap again and again."""
    path = f"/validate/policies?timeout={SECONDS:g}s"
    heavy = documents.review(documents.config_map(documents.keys(_KEYS), namespace), path, allowed=True)
    while True:
        try:
            answer = await asyncio.to_thread(process.ask, heavy, SECONDS)
        except BROKEN as error:
            answers[f"{_UNANSWERED} ({reason(error)})"] += 1
        else:
            answers["admitted" if answer["allowed"] else "refused for want of time, as they fail closed"] += 1
