"""Faults of what is evaluated: policies that take long."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from faults import documents
from faults.calls import BROKEN, SECONDS, calling, looping, probing, reason
from faults.documents import Json
from faults.process import Process
from faults.reviews import GUARD
from faults.row import Result, broken
from faults.site import Site

_SECONDS = 15.0
_UNANSWERED = "without an answer"
HEAVY: Mapping[str, Json] = {
    "5 KB for eight quadratic policies": documents.keys(340),
    "a pattern of its own beyond the limit, for 81 KB": {"p": r"(?:\pL?){1000}!$", "s": "\u00e4" * 40_500},
    "a pattern of its own within the limit, for 240 KB": {"p": r"(?:\pL?){8}[ab]{300}!$", "s": "ab" * 120_000},
    "240 KB for a search in quadratic time": {"f": "a" * 240_000},
}
"""The data of ConfigMaps that take long, by what they are."""
_POLICIES = {
    "own": "!('p' in object.data) || !object.data.s.matches(object.data.p)",
    "searched": "!('f' in object.data) || object.data.f.findAll('(?:aa|a)*b|a').size() > 0",
}


def stall(site: Site) -> Result:
    """Eight quadratic policies, one with patterns of objects and one that searches meet ConfigMaps made for them.

    99 of 100 answers of the guard within 50 ms, every probe of `/livez` within 100 ms, and no other write refused.
    """
    directory = site.directory()
    directories = [*documents.quadratic(directory), str(directory / "searches.yaml")]
    searches = (each for name, text in _POLICIES.items() for each in documents.policy(name, text))
    documents.write(directory / "searches.yaml", searches)
    with Process(directory, policies={"directories": directories}) as process:
        process.wait_until_ready()
        return asyncio.run(_stall(process))


async def _stall(process: Process) -> Result:
    answers: Counter[str] = Counter()
    async with calling(process, GUARD, 100) as before:
        await asyncio.sleep(3)
    writes = [_write(process, f"team-{number}", what, answers) for number, what in enumerate(HEAVY)]
    began = time.monotonic()
    async with calling(process, GUARD, 100) as guard, probing(process) as alive, looping(writes):
        await asyncio.sleep(_SECONDS)
    heavy = "; ".join(f"{what} {count} times" for what, count in answers.most_common())
    return Result(
        seen=f"guard p99 {guard.p99 * 1e3:.0f} ms (slowest {guard.slowest * 1e3:.0f} ms; p99 before the fault "
        f"{before.p99 * 1e3:.0f} ms), /livez at most {alive.slowest * 1e3:.0f} ms; the heavy writes: {heavy or 'none'}",
        lost=guard.summary,
        healthy=guard.healthy_after(began),
        slow=(*guard.slow("guard", 0.05), *broken({"/livez under 100 ms": alive.slowest < 0.1})),
        promises={
            "/livez answers": bool(alive.seconds) and not alive.lost,
            "no write lost or misjudged": guard.flawless,
            "heavy writes are answered": not any(_UNANSWERED in what for what in answers),
        },
    )


async def _write(process: Process, namespace: str, what: str, answers: Counter[str]) -> None:
    """Write a ConfigMap again and again."""
    path = f"/validate/policies?timeout={SECONDS:g}s"
    heavy = documents.review(documents.config_map(HEAVY[what], namespace), path, allowed=True)
    while True:
        try:
            answer = await asyncio.to_thread(process.ask, heavy, SECONDS)
        except BROKEN as error:
            answers[f"{what}: {_UNANSWERED} ({reason(error)})"] += 1
        else:
            answers[f"{what}: {'admitted' if answer['allowed'] else 'refused'}"] += 1
