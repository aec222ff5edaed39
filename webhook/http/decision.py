"""Runs the engine, and looks up the values that it misses. Rules never wait; this module waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from policies.cel.library.kubernetes.authorizer import Check, CheckAnswer
from policies.engine import engine
from policies.engine.engine import Answer
from policies.engine.lookup import FactUnavailable, Key, Missing
from policies.engine.request import AdmissionRequest
from webhook.http.state import Resolver, Route, Served
from webhook.metrics import Metrics

# A review depends on the Namespaces of object and requester, and on parameters of matching policies.
LOOKUPS = 32
# The limit of authorization checks in one review: as many as one policy's cost limit allows.
CHECKS = 28


async def decide(request: AdmissionRequest, route: Route, served: Served, deadline: float, metrics: Metrics) -> Answer:
    """The answer to a request. `deadline` is a time of the event loop's clock.

    If a value cannot be found by then, the rules that need it fail, and their failure policies apply.
    """
    run = engine.mutate if route.phase == "mutate" else engine.validate
    facts = served.facts
    while True:
        try:
            return run(request, served.ruleset, facts, route.group)
        except Missing as missing:
            key = missing.key
        remaining = deadline - asyncio.get_running_loop().time()
        entry = await _entry(key, facts.entries, served.resolver, remaining)
        failed = isinstance(entry, FactUnavailable) or (isinstance(entry, CheckAnswer) and entry.error is not None)
        metrics.lookups.labels("failed" if failed else "found").inc()
        facts = facts.entered(key, entry)


async def _entry(key: Key[Any], known: Collection[Key[Any]], resolver: Resolver | None, seconds: float) -> Any:
    """The value of a key, or the failure to find it. known: the keys that were looked up in this review."""
    if key in known:
        raise RuntimeError(f"{key} is looked up without regard to what was found")
    if resolver is None:
        return key.without_cluster()
    if reason := _limit_reached(key, known) or ("no time was left to ask the API server" if seconds <= 0 else ""):
        return key.failure(reason)
    try:
        return await resolver.read(key, seconds)
    except FactUnavailable as error:
        return error
    except Missing:
        return FactUnavailable(f"{key.missing}, although it was looked for")
    except Exception as error:  # noqa: BLE001 - a defect in a look-up fails the rules that need it, not the review
        return FactUnavailable(f"{key.missing}: {type(error).__name__}: {error}")


def _limit_reached(key: Key[Any], known: Collection[Key[Any]]) -> str:
    """The limit that forbids another look-up; empty if there is none."""
    checks = sum(isinstance(known_key, Check) for known_key in known)
    if isinstance(key, Check):
        return f"over {CHECKS} authorization checks in one review" if checks >= CHECKS else ""
    return f"one review looks for {LOOKUPS} things at most" if len(known) - checks >= LOOKUPS else ""
