"""Runs the engine, and fetches what it asks for: rules never wait, so whoever runs them does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from policies.cel.library.authorizer import Answer as CheckAnswer
from policies.cel.library.authorizer import Check, UnansweredCheck
from policies.engine import engine
from policies.engine.engine import Answer
from policies.engine.facts import Facts, FactUnavailable, NeededLookUp, References, UnknownFact, UnknownReferences
from policies.engine.request import AdmissionRequest, JsonObject
from webhook.http.state import Route, Served
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from policies.admissionpolicy.params import UnknownParameters

# A review depends on the Namespaces of its object and of its requester, and on parameters of the policies that match.
LOOKUPS = 32
# Authorization checks that one review may ask for: what the cost limit of one policy lets it ask.
CHECKS = 28


async def decide(request: AdmissionRequest, route: Route, served: Served, deadline: float, metrics: Metrics) -> Answer:
    """The answer to a request. `deadline` is a time of the event loop's clock.

    A fact that cannot be had by then fails the rules that need it, which follow their failure policies.
    """
    run = engine.mutate if route.phase == "mutate" else engine.validate
    facts = served.facts()
    lookups: _LookUps | None = None  # nearly no review needs any
    while True:
        try:
            return run(request, served.ruleset, facts, route.group)
        except NeededLookUp as needed:
            lookups = lookups or _LookUps(served, deadline)
            found = await (lookups.ask(needed.check) if isinstance(needed, UnansweredCheck) else lookups.find(needed))
        metrics.lookups.labels("found" if found else "failed").inc()
        facts = cast("Facts", _PartialFacts(served.facts(), lookups))


class _LookUps:
    """What one review has looked for, each thing once.

    failed: by what was asked for. answers, references: those to authorization checks, and who names a topology; both
    were asked for this review alone.
    """

    def __init__(self, served: Served, deadline: float) -> None:
        self._resolver = served.resolver
        self._deadline = deadline
        self._asked: set[str] = set()
        self.failed: dict[str, FactUnavailable] = {}
        self.answers: dict[Check, CheckAnswer] = {}
        self.references: dict[str, References] = {}

    async def find(self, needed: NeededLookUp) -> bool:
        """Bring in a Namespace, parameters or references, and say whether that could be done."""
        what = str(needed)
        try:
            await self._fetch(what, needed)
        except FactUnavailable as error:
            self.failed[what] = error
        return what not in self.failed

    async def ask(self, check: Check) -> bool:
        """Ask an authorization check. Where that cannot be done the answer is an errored one, which expressions see."""
        answer = self.answers[check] = await self._answer(check)
        return answer.error is None

    async def _answer(self, check: Check) -> CheckAnswer:
        if len(self.answers) >= CHECKS:
            return CheckAnswer(allowed=False, error=f"over {CHECKS} authorization checks in one review")
        if self._resolver is None:
            return CheckAnswer(allowed=False, error="there is no cluster to ask")
        if self._remaining <= 0:
            return CheckAnswer(allowed=False, error="no time was left to ask the API server")
        return await self._resolver.review(check, self._remaining)

    async def _fetch(self, what: str, needed: NeededLookUp) -> None:
        """Raises FactUnavailable."""
        if what in self._asked:
            raise FactUnavailable(f"{what}, although it was looked for")
        if len(self._asked) == LOOKUPS:
            raise FactUnavailable(f"{what}, and one review looks for {LOOKUPS} things at most")
        self._asked.add(what)
        if self._resolver is None:
            raise FactUnavailable(f"{what}, and there is no cluster to ask")
        if self._remaining <= 0:
            raise FactUnavailable(f"{what}, and no time was left to ask the API server")
        try:
            if isinstance(needed, UnknownFact):
                await self._resolver.read_namespace(needed.namespace, self._remaining)
            elif isinstance(needed, UnknownReferences):
                found = await self._resolver.read_references(needed.topology, self._remaining)
                self.references[needed.topology] = found
            else:
                await self._resolver.read_parameters(cast("UnknownParameters", needed), self._remaining)
        except FactUnavailable:
            raise
        except Exception as error:
            raise FactUnavailable(f"{what}: {type(error).__name__}: {error}") from error

    @property
    def _remaining(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()


class _PartialFacts:
    """Facts of which some could not be had: asking for one of these fails the rule that asks."""

    def __init__(self, facts: Facts, lookups: _LookUps) -> None:
        self._facts = facts
        self._lookups = lookups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._facts, name)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        try:
            return self._facts.namespace_labels(name)
        except UnknownFact as needed:
            self.give_up(needed)
            raise

    def namespace(self, name: str) -> JsonObject:
        try:
            return self._facts.namespace(name)
        except UnknownFact as needed:
            self.give_up(needed)
            raise

    def references(self, topology: str) -> References:
        if (known := self._lookups.references.get(topology)) is not None:
            return known
        try:
            return self._facts.references(topology)
        except UnknownReferences as needed:
            self.give_up(needed)
            raise

    def answer(self, check: Check) -> CheckAnswer:
        known = self._lookups.answers.get(check)
        return self._facts.answer(check) if known is None else known

    def give_up(self, needed: NeededLookUp) -> None:
        if (error := self._lookups.failed.get(str(needed))) is not None:
            raise error
