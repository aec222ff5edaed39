"""Faults of policies that take long, and of sources of policies that are meant to stall the service."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from cluster.polling import wait_for

from faults import documents
from faults.calls import BROKEN, SECONDS, calling, looping, probing, reason
from faults.documents import GUARD, Json
from faults.process import Process
from faults.resources import MEGABYTE, Memory, chart_limit, limited
from faults.site import Site
from faults.table import Result, broken

_EDIT_SECONDS = 5.0
_END_SECONDS = 10.0
_LATER = "0.later"


def _policy(name: str, expression: str, **spec: Any) -> list[Json]:
    """A policy about what nobody writes here, and its binding."""
    rule = {**documents.CONFIG_MAPS, "resources": ["secrets"]}
    return documents.policy(name, expression, matchConstraints={"resourceRules": [rule]}, **spec)


def _variables(steps: int) -> list[Json]:
    doubled = [
        {"name": f"v{step + 1}", "expression": f"{{variables.v{step}: variables.v{step}}}"} for step in range(steps)
    ]
    return _policy("variables", "size(variables.v1) == 1", variables=[{"name": "v0", "expression": "1"}, *doubled])


SHAPES: Mapping[str, list[Json]] = {
    "types that double": _policy("types", f"size([1]{'.map(x, {x: x})' * 30}) == 1"),
    "variables that double": _variables(30),
    "many optMaps": _policy("optmaps", f"size([{', '.join(['object.?a' + '.optMap(x, x)' * 8] * 60)}]) > 0"),
    "large patterns": [
        each
        for number in range(12)
        for each in _policy(
            f"patterns-{number}", f"object.metadata.name.matches(r'^(?:[\\pL\\pN._-]{{0,63}}[.,]?){{0,15}}!{number}$')"
        )
    ],
    "one larger pattern": _policy("pattern", r"object.metadata.name.matches(r'(?:\pL?){1000}!$')"),
    "long expressions": [
        each
        for number in range(10)
        for each in _policy(
            f"long-{number}", " || ".join(f"object.metadata.name == 'name-{number}-{term}'" for term in range(2200))
        )
    ],
    "large YAML": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"x": [[]] * 300_000}}],
}
"""Documents of one source each, by what is wrong with them."""


def hostile(site: Site) -> Result:
    """Sources of policies are made to take long, each in its way; another one, with a FIFO and /dev/zero, is edited.

    99 of 100 answers of the guard within 50 ms and none over 1 s, each edit in force within 5 s, each source is loaded
    or refused by name, memory stays within the chart's limit, and the service ends within 10 s.
    """
    directory = site.directory()
    sources = [directory / f"source-{number}" for number in range(len(SHAPES))]
    for source, content in zip(sources, SHAPES.values(), strict=True):
        source.mkdir()
        documents.write(source / _LATER, content)  # it takes long, in which this process would call nobody
    edited = directory / "edited"
    edited.mkdir()
    documents.write(edited / "0.yaml", documents.limit("limit", 1000))
    os.mkfifo(edited / "fifo.yaml")
    (edited / "zero.yaml").symlink_to("/dev/zero")
    settings = {"directories": [*map(str, sources), str(edited)]}
    with limited(chart_limit()) as memory, Process(directory, policies=settings) as process:
        memory.hold(process.pid)
        process.wait_until_ready()
        return asyncio.run(_hostile(process, memory))


async def _hostile(process: Process, memory: Memory) -> Result:
    directory = process.config.parent
    edits: list[float] = []
    outcomes: dict[str, str] = {}
    async with calling(process, GUARD, 100) as before:
        await asyncio.sleep(3)
    began = time.monotonic()
    async with calling(process, GUARD, 100) as guard:
        for number, (shape, content) in enumerate(SHAPES.items()):
            written = time.monotonic()
            (directory / f"source-{number}" / _LATER).rename(directory / f"source-{number}" / "0.yaml")
            edits.append(await _edited(process, number))
            source = str(directory / f"source-{number}")
            outcome = await asyncio.to_thread(wait_for, shape, lambda: _outcome(process, source, content))  # noqa: B023
            outcomes[shape] = f"{outcome} after {time.monotonic() - written:.0f} s"
    peak = memory.peak()
    ending = time.monotonic()
    process.child.terminate()
    await asyncio.to_thread(process.child.wait, 60)
    ended = time.monotonic() - ending
    told = ", ".join(f"{shape}: {outcome}" for shape, outcome in outcomes.items())
    return Result(
        seen=f"guard p99 {guard.p99 * 1e3:.0f} ms (slowest {guard.slowest * 1e3:.0f} ms; p99 before the fault "
        f"{before.p99 * 1e3:.0f} ms), edits in force after at most {max(edits):.1f} s, at most "
        f"{peak.size / MEGABYTE:.0f} MiB (limit: {peak.limit}); {told}",
        lost=guard.summary,
        healthy=guard.healthy_after(began),
        slow=(
            *guard.slow("guard", 0.05),
            *broken({"guard within 1 s": guard.slowest < 1, "edits in force within 5 s": max(edits) < _EDIT_SECONDS}),
        ),
        promises={
            "no review lost or misjudged": guard.flawless,
            "within the chart's limit": not peak.killed and peak.size < chart_limit(),
            "it ends within 10 s": ended < _END_SECONDS,
        },
    )


def _outcome(process: Process, source: str, content: list[Json]) -> str:
    """What became of a source; empty before it is known."""
    if any(event["source"] == source for event in process.events("policies refused")):
        return "refused"
    added = [event["added"] + event.get("objects_added", []) for event in process.events("policies loaded")]
    names = {name.rpartition(" ")[2] for each in added for name in each}
    return "loaded" if content[0]["metadata"]["name"] in names else ""


async def _edited(process: Process, number: int) -> float:
    """The seconds until an edit of another source is in force."""
    began = time.monotonic()
    documents.write(process.config.parent / "edited" / "0.yaml", documents.limit("limit", 100 + number))
    refused, allowed = documents.sized(101 + number), documents.sized(100 + number)
    await asyncio.to_thread(wait_for, "an edit", lambda: process.refuses(refused) and not process.refuses(allowed))
    return time.monotonic() - began


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
