"""Faults of policies: changed again and again, or gone."""

from __future__ import annotations

import asyncio
import time

from cluster.polling import wait_for

from faults import documents
from faults.calls import calling
from faults.documents import GUARD
from faults.process import Process
from faults.resources import MEGABYTE, descriptors, resident
from faults.site import Site
from faults.table import Result

_POLICIES = 20
_WARM_UP = 0.1  # of all edits
_GROWTH = 1.1
_RATE = 200.0
_AWAY_SECONDS = 5.0


def policy_edits(site: Site) -> Result:
    """One of twenty policies is edited again and again under 200 reviews a second.

    No review is lost or misjudged, p99 under 1 s, the last edit comes into force, and memory grows by less than a tenth
    after the first tenth of the edits.
    """
    directory = site.directory()
    policies = directory / "policies"
    policies.mkdir()
    for number in range(_POLICIES):
        documents.write(policies / f"{number}.yaml", documents.limit(f"limit-{number}", 10_000 if number else 1000))
    with Process(directory, policies={"directories": [str(policies)]}) as process:
        process.wait_until_ready()
        return asyncio.run(_edits(process, site))


async def _edits(process: Process, site: Site) -> Result:
    count, rate = site.sizes.edits, site.sizes.edit_rate
    file = process.config.parent / "policies" / "0.yaml"
    reviews = (*GUARD, documents.sized(500, allowed=True), documents.sized(5000))
    async with calling(process, reviews, _RATE) as calls:
        began = time.monotonic()
        first = (0, 0)
        for number in range(1, count + 1):
            documents.write(file, documents.limit("limit-0", 1000 + number % 1000))
            await asyncio.sleep(began + number / rate - time.monotonic())
            if number == int(count * _WARM_UP):
                first = resident(process.pid), descriptors(process.pid)
    edited = time.monotonic()
    documents.write(file, documents.limit("limit-0", 1))
    await asyncio.to_thread(wait_for, "the last edit", lambda: process.refuses(documents.sized(500)))
    healthy = time.monotonic() - edited
    last = resident(process.pid), descriptors(process.pid)
    reloads = len(process.events("policies loaded"))
    return Result(
        seen=f"{count:,} edits at {count / (edited - began):.3g} a second in {reloads:,} reloads; "
        f"answers p99 {calls.p99 * 1e3:.0f} ms; after a tenth of them {first[0] / MEGABYTE:.0f} MiB of memory and "
        f"{first[1]} descriptors, at the end {last[0] / MEGABYTE:.0f} and {last[1]}",
        lost=calls.summary,
        healthy=healthy,
        slow=calls.slow("answers"),
        promises={
            "no review lost or misjudged": calls.flawless,
            "memory flat": last[0] < first[0] * _GROWTH,
            "descriptors flat": last[1] <= first[1] + 5,
        },
    )


def policy_directory(site: Site) -> Result:
    """The directory of the policies vanishes for five seconds under 200 reviews a second, and comes back changed.

    The policies stay in force while it is away, no review is lost or misjudged, p99 under 1 s, and then the new one is
    in force.
    """
    directory = site.directory()
    policies = directory / "policies"
    policies.mkdir()
    documents.write(policies / "0.yaml", documents.limit("limit-0", 1000))
    with Process(directory, policies={"directories": [str(policies)]}) as process:
        process.wait_until_ready()
        return asyncio.run(_vanishing(process))


async def _vanishing(process: Process) -> Result:
    policies, away = process.config.parent / "policies", process.config.parent / "away"
    reviews = (*GUARD, documents.sized(500, allowed=True), documents.sized(5000))
    async with calling(process, reviews, _RATE) as calls:
        await asyncio.sleep(1)
        policies.rename(away)
        await asyncio.sleep(_AWAY_SECONDS)
        ready = process.readiness()
    documents.write(away / "0.yaml", documents.limit("limit-0", 100))
    away.rename(policies)
    back = time.monotonic()
    await asyncio.to_thread(wait_for, "the new policy", lambda: process.refuses(documents.sized(500)))
    said_ready = " ".join(ready.replace(f"{process.config.parent}/", "").split())
    worse = ("warning", "error", "critical")
    said = sorted({each["event"] for each in process.entries() if each["level"] in worse})
    return Result(
        seen=f"answers p99 {calls.p99 * 1e3:.0f} ms; /readyz: {said_ready}; logged: {', '.join(said)}",
        lost=calls.summary,
        healthy=time.monotonic() - back,
        slow=calls.slow("answers"),
        promises={"no review lost or misjudged": calls.flawless, "it is said": bool(said)},
    )
