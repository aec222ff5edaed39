"""Judges objects that exist as if somebody created them today: requests in, findings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from policies.engine import engine, patch
from policies.engine.facts import Facts
from policies.engine.interruption import FactUnavailable, Key, Missing
from policies.engine.request import AdmissionRequest, is_being_deleted
from webhook.audit import judgement
from webhook.audit.finding import Finding, Scope, Subject
from webhook.audit.rules import Rules
from webhook.audit.sparing import spared
from webhook.audit.subject import subject

T = TypeVar("T")
# For one look-up. Nobody waits for an audit, so it may take longer than in a review.
_SECONDS: Final = 30.0
_NOBODY: Final[frozenset[str]] = frozenset()


class Resolver(Protocol):
    """Looks up the values of keys that are not in memory."""

    async def read(self, key: Key[T], seconds: float) -> T:
        """The value of a key, within a time limit. Raises FactUnavailable, and Missing if it does not exist."""


class Workloads(Protocol):
    """Knows whose an object is."""

    async def topmost(self, request: AdmissionRequest) -> tuple[str, Scope]:
        """The topmost owner of an object: kind and name, such as `Deployment/web`, and what a report is about."""


class Judged(Struct, frozen=True):
    """An object that was judged, with what is found; its workload is looked up only if there is something."""

    subject: Subject
    findings: tuple[Finding, ...] = ()


def count(counts: Counter[str], judged: Judged) -> None:
    """Count an object, and its verdicts, each once."""
    counts["objects"] += 1
    counts.update({finding.verdict for finding in judged.findings})


class Audit:
    """Judges one object after the other, and keeps none of them.

    rules: those that are judged. facts: beside the objects. resolver: finds facts that are not in memory; None without
    a cluster. workloads: knows owners; None if nobody asks for them.
    """

    def __init__(
        self, rules: Rules, facts: Facts, resolver: Resolver | None = None, workloads: Workloads | None = None
    ) -> None:
        self.rules = rules
        self._facts = facts
        self._resolver = resolver
        self._workloads = workloads

    async def all(self, requests: AsyncIterable[AdmissionRequest]) -> AsyncIterator[Judged]:
        """What is found about each object, in the order of the requests. See `creation` for a request."""
        async for request in requests:
            yield await self.judged(request)

    async def judged(self, request: AdmissionRequest) -> Judged:
        """What is found about an object: nothing if it is being deleted."""
        about = subject(request)
        findings = await self._looked_up(lambda facts: self._findings(about, request, facts))
        if findings and self._workloads is not None:
            workload, scope = await self._workloads.topmost(request)
            about = replace(about, workload=workload, scope=scope)
            findings = [replace(finding, subject=about) for finding in findings]
        return Judged(about, tuple(findings))

    def _findings(self, about: Subject, request: AdmissionRequest, facts: Facts) -> list[Finding]:
        """What is found. Raises Missing."""
        if is_being_deleted(request.object):
            return []
        ruleset = self.rules.ruleset
        mutation = engine.mutate(request, ruleset, facts)
        if not mutation.allowed:  # as in admission, nobody judges what was refused already
            return judgement.of_answers(about, (mutation,))
        changed, changes = request, list[Finding]()
        if mutation.operations:
            changed = replace(request, object=patch.apply(request.object or {}, mutation.operations))
            changes = list(self._changes(about, request, facts))
        validation = engine.validate(changed, ruleset, facts)
        silent = _NOBODY if validation.unanimity is not None else spared(request, facts)
        return judgement.together((*judgement.of_answers(about, (mutation, validation), silent), *changes))

    def _changes(self, about: Subject, request: AdmissionRequest, facts: Facts) -> Iterator[Finding]:
        """What each mutation would change, one after the other. Raises Missing."""
        current = request
        for step in self.rules.mutations:
            operations = engine.mutate(current, step, facts).operations
            for rule in step.rules if operations else ():
                yield from judgement.of_changes(about, rule.name, current.object, operations)
                current = replace(current, object=patch.apply(current.object or {}, operations))

    async def _looked_up(self, judge: Callable[[Facts], T]) -> T:
        """What comes of judging, with all facts that it turns out to need."""
        facts = self._facts
        while True:
            try:
                return judge(facts)
            except Missing as missing:
                key = missing.key
            facts = facts.entered(key, await self._entry(key))

    async def _entry(self, key: Key[Any]) -> Any:
        """The value of a key, or the failure to find it."""
        if self._resolver is None:
            return key.without_cluster()
        try:
            return await self._resolver.read(key, _SECONDS)
        except FactUnavailable as error:
            return error
        except Missing:
            return key.failure("it was looked for")
