"""Runs the engine, and fetches what it asks for: rules never wait, so whoever runs them does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from policies import engine
from policies.cel.library.authorizer import Answer as CheckAnswer
from policies.cel.library.authorizer import Check, UnansweredCheck
from policies.engine import Answer
from policies.facts import Facts, FactUnavailable, UnknownFact
from policies.request import AdmissionRequest
from webhook.metrics import Metrics
from webhook.state import Route, Served

# A review depends on the Namespaces of its object and of its requester, so two look-ups are the most there are today.
LOOKUPS = 4
# Authorization checks that one review may ask for: what the cost limit of one policy lets it ask.
CHECKS = 28


class _PartialFacts:
    """Facts of which some could not be had: asking for one of these fails the rule that asks.

    answers: those to authorization checks, asked for this review alone.
    """

    def __init__(
        self, facts: Facts, unavailable: Mapping[str, FactUnavailable], answers: Mapping[Check, CheckAnswer]
    ) -> None:
        self._facts = facts
        self._unavailable = unavailable
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._facts, name)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        if name in self._unavailable:
            raise self._unavailable[name]
        return self._facts.namespace_labels(name)

    def answer(self, check: Check) -> CheckAnswer:
        known = self._answers.get(check)
        return self._facts.answer(check) if known is None else known


async def decide(request: AdmissionRequest, route: Route, served: Served, deadline: float, metrics: Metrics) -> Answer:
    """The answer to a request. `deadline` is a time of the event loop's clock.

    A fact that cannot be had by then fails the rules that need it, which follow their failure policies.
    """
    run = engine.mutate if route.phase == "mutate" else engine.validate
    facts = served.facts()
    unavailable: dict[str, FactUnavailable] = {}
    answers: dict[Check, CheckAnswer] = {}
    asked: set[str] = set()
    while True:
        try:
            return run(request, served.ruleset, facts, route.group)
        except UnknownFact as needed:
            namespace = needed.namespace
            try:
                await _fetch(namespace, asked, served, deadline)
            except FactUnavailable as error:
                unavailable[namespace] = error
                facts = cast("Facts", _PartialFacts(served.facts(), unavailable, answers))
            metrics.lookups.labels("failed" if namespace in unavailable else "found").inc()
        except UnansweredCheck as needed:
            answer = answers[needed.check] = await _ask(needed.check, len(answers), served, deadline)
            facts = cast("Facts", _PartialFacts(served.facts(), unavailable, answers))
            metrics.lookups.labels("found" if answer.error is None else "failed").inc()


async def _ask(check: Check, before: int, served: Served, deadline: float) -> CheckAnswer:
    """The answer to an authorization check; an errored one, which the expression sees, where it cannot be had."""
    remaining = deadline - asyncio.get_running_loop().time()
    if before >= CHECKS:
        return CheckAnswer(allowed=False, error=f"over {CHECKS} authorization checks in one review")
    if served.resolver is None:
        return CheckAnswer(allowed=False, error="there is no cluster to ask")
    if remaining <= 0:
        return CheckAnswer(allowed=False, error="no time was left to ask the API server")
    return await served.resolver.review(check, remaining)


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
