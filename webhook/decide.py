"""Runs the engine, and fetches what it asks for: rules never wait, so whoever runs them does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from policies import engine
from policies.engine import Answer
from policies.facts import Facts, FactUnavailable, UnknownFact
from policies.request import AdmissionRequest
from policies.rule import Phase
from webhook.metrics import Metrics
from webhook.state import Served

# A review depends on the Namespaces of its object and of its requester, so two look-ups are the most there are today.
LOOKUPS = 4


class _PartialFacts:
    """Facts of which some could not be had: asking for one of these fails the rule that asks."""

    def __init__(self, facts: Facts, unavailable: Mapping[str, FactUnavailable]) -> None:
        self._facts = facts
        self._unavailable = unavailable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._facts, name)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        if name in self._unavailable:
            raise self._unavailable[name]
        return self._facts.namespace_labels(name)


async def decide(
    request: AdmissionRequest, phase: Phase, group: str | None, served: Served, deadline: float, metrics: Metrics
) -> Answer:
    """The answer to a request. `deadline` is a time of the event loop's clock.

    A fact that cannot be had by then fails the rules that need it, which follow their failure policies.
    """
    run = engine.mutate if phase == "mutate" else engine.validate
    facts = served.facts()
    unavailable: dict[str, FactUnavailable] = {}
    asked: set[str] = set()
    while True:
        try:
            return run(request, served.ruleset, facts, group)
        except UnknownFact as needed:
            namespace = needed.namespace
            try:
                await _fetch(namespace, asked, served, deadline)
            except FactUnavailable as error:
                unavailable[namespace] = error
                facts = cast("Facts", _PartialFacts(served.facts(), unavailable))
            metrics.lookups.labels("failed" if namespace in unavailable else "found").inc()


async def _fetch(namespace: str, asked: set[str], served: Served, deadline: float) -> None:
    """Bring in a Namespace that was not asked for before. Raises FactUnavailable."""
    if namespace in asked or len(asked) == LOOKUPS:
        raise FactUnavailable(f"namespace {namespace} is still not known after {len(asked)} look-ups")
    asked.add(namespace)
    remaining = deadline - asyncio.get_running_loop().time()
    if served.resolver is None:
        raise FactUnavailable(f"the labels of namespace {namespace} are not known and there is no cluster to ask")
    if remaining <= 0:
        raise FactUnavailable(f"no time was left to read namespace {namespace}")
    try:
        await served.resolver.read_namespace(namespace, remaining)
    except FactUnavailable:
        raise
    except Exception as error:
        raise FactUnavailable(f"namespace {namespace} could not be read: {type(error).__name__}: {error}") from error
