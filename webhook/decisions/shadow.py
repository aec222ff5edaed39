"""What shadow policies are asked about: what the API server sends because of the policies in force. Pure."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import NamedTuple, NoReturn

import structlog
from msgspec.structs import replace

from policies.engine.comparison import compared, judgements, placed, unsent
from policies.engine.interruption import PostponedError
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Phase, RuleSet
from policies.engine.violation import listed
from webhook.configuration.rules import PolicyRules
from webhook.decisions.log import DecisionLog
from webhook.http.decision import LARGE, Answered, Judge, Served
from webhook.logs import Seldom
from webhook.metrics import ShadowMetrics

PHASE: Phase = "validate"
"""The phase in which they are asked."""
_SHOWN = 5  # kinds of requests in a text


class Unasked(NamedTuple):
    """A policy that is not asked about all that it is for, so that its counts do not show what it would do."""

    policy: str
    about: str
    reason: str
    remedy: str

    @property
    def text(self) -> str:
        """All of it as a line."""
        return f"{self.policy} is not asked about {self.about}: {self.reason}; {self.remedy}"


def validating(policies: PolicyRules) -> tuple[str, ...]:
    """The names of the policies that are asked."""
    return tuple(rule.name for rule in policies.rules if rule.validate is not None)


def beside(policies: PolicyRules, ruleset: RuleSet, real: RuleSet) -> RuleSet:
    """The rules of shadow policies, where they are asked. ruleset: theirs. real: the rules in force."""
    names = validating(policies)
    groups = {
        rule.name: dict.fromkeys(hook.group for hook in rule.hooks if hook.phase == PHASE)
        for rule in real.rules
        if rule.name in names
    }
    exceptions = tuple(dict.fromkeys((*real.exceptions, *ruleset.exceptions)))
    return placed(RuleSet(ruleset.rules, exceptions, real.safety), names, groups, PHASE)


def unasked(policies: PolicyRules, rules: RuleSet, real: RuleSet) -> tuple[Unasked, ...]:
    """The policies that are not asked about all that they are for. rules: theirs, where they are asked."""
    names = {rule.name for rule in policies.rules}
    remedy = "see what it changes by check --diff, and replay"
    mutating = (
        Unasked(name, "anything", "it is a mutating policy", remedy) for name in policies.names if name not in names
    )
    hooks = [hook for rule in real.rules for hook in rule.hooks]
    reason = "no policy in force with its failurePolicy is for that, so the API server does not send all of it"
    remedy_of_unsent = "put the policy into force with validationActions: [Audit], or run audit on what exists"
    beyond = (
        Unasked(rule.name, listed(about, _SHOWN, "; "), reason, remedy_of_unsent)
        for rule in rules.rules
        if (about := unsent(rule, hooks))
    )
    return (*mutating, *beyond)


# The part of the event loop's time that they may take in the long run, and what they may take at once, in seconds.
SHARE = 0.1
BURST = 1.0
# How long no answer has to be given before they are asked, in seconds; event loops count in steps of this length.
_MOMENT = 0.001
# What waits for them at most: reviews, and the bytes of their bodies.
WAITING = 1024
WAITING_BYTES = 4 * 1024 * 1024
# For facts that have to be read first.
_SECONDS = 5.0
# What a review costs of the budget, besides its time, if it took too long twice: others would have to wait as long.
_PENALTY = 0.3


class Budget:
    """Processor time, which grows with the time that passes. clock: returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at = clock()
        self._left = BURST

    def wait(self) -> float:
        """How many seconds until there is some left; 0 if there is."""
        now = self._clock()
        self._left = min(BURST, self._left + SHARE * (now - self._at))
        self._at = now
        return 0.0 if self._left > 0 else -self._left / SHARE

    def spend(self, seconds: float) -> None:
        """Take some of it."""
        self._left -= seconds


class _Set(NamedTuple):
    """The shadow policies as they are asked beside those in force. names: theirs. groups: where they are."""

    names: tuple[str, ...]
    served: Served
    groups: frozenset[str | None]


class Shadow:
    """Judges what was answered. judge: evaluates requests. log: records changes; None if there is no log."""

    def __init__(self, judge: Judge, metrics: ShadowMetrics, log: DecisionLog | None) -> None:
        self._judge = judge
        self._metrics = metrics
        self._log = log
        self._events = structlog.get_logger()
        self._seldom = Seldom(self._events)
        self._waiting: deque[Answered] = deque()
        self._bytes = 0
        self._answers = 0
        self._wake = asyncio.Event()
        self._budget = Budget(asyncio.get_running_loop().time)
        self._set: _Set | None = None
        self._unasked: tuple[Unasked, ...] = ()

    def install(self, policies: PolicyRules, ruleset: RuleSet, real: Served) -> None:
        """Take these policies from now on. ruleset: theirs, with what they are spared. real: the rules in force."""
        names = validating(policies)
        self._metrics.in_force(names)
        rules = beside(policies, ruleset, real.ruleset)
        served = Served(rules, real.facts, real.resolver)
        self._set = _Set(names, served, frozenset({None, *rules.groups(PHASE)})) if names else None
        silent = unasked(policies, rules, real.ruleset)
        self._metrics.unasked.set(len(silent))
        for policy in silent:
            if policy not in self._unasked:
                self._events.warning("shadow policy is not asked", **policy._asdict())
        self._unasked = silent

    def notes(self) -> list[str]:
        """A text for each policy that is not asked about all that it is for."""
        return [policy.text for policy in self._unasked]

    def __call__(self, answered: Answered) -> None:
        """Have a review judged later, or drop it if too many wait."""
        self._answers += 1
        known, route = self._set, answered.route
        if known is None or route.phase != PHASE or route.group not in known.groups:
            return
        size = len(answered.body)
        if size > LARGE or len(self._waiting) >= WAITING or self._bytes + size > WAITING_BYTES:
            self._metrics.reviews.labels("dropped").inc()
            return
        self._waiting.append(_with(answered, replace(answered.reviewed.request, object=None, old_object=None)))
        self._bytes += size
        self._wake.set()

    async def run(self) -> NoReturn:
        """Judge what comes."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await asyncio.sleep(self._budget.wait())
                # Wait until nobody seems to wait for an answer: for a moment in which none was given. What comes later
                # waits for one judgement at most, which usually takes tenths of a millisecond.
                before = None
                while before != self._answers:
                    before = self._answers
                    await asyncio.sleep(_MOMENT)
                answered = self._waiting.popleft()
                self._bytes -= len(answered.body)
                outcome = await self._looked_at(answered)
                if outcome == "late":  # perhaps since Python compiled the expressions, which it does once
                    outcome = await self._looked_at(answered)
                    self._budget.spend(_PENALTY if outcome == "late" else 0.0)
                self._metrics.reviews.labels(outcome).inc()

    async def _looked_at(self, answered: Answered) -> str:
        """Judge one review. Returns what became of that: judged, late if it took too long, or failed."""
        if (known := self._set) is None:
            return "dropped"
        began = thread_time()
        try:
            route = known.served.routes[answered.path]
            request = route.decode(answered.body)
            deadline = asyncio.get_running_loop().time() + _SECONDS
            answer = await self._judge.evaluated(request, route, known.served, known.served.facts, deadline)
            outcomes = list(compared(judgements(answered.reviewed.answer), judgements(answer), known.names))
            for outcome, change in outcomes:
                self._metrics.count(change.policy, outcome)
            changes = [(outcome, change) for outcome, change in outcomes if outcome != "same"]
            if changes and self._log is not None:
                self._log.shadow(_with(answered, request), changes)
        except PostponedError:
            return "late"
        except Exception as error:  # noqa: BLE001 - whatever they do, those in force go on
            self._seldom.warning("shadow policies failed", type(error), error=repr(error))
            return "failed"
        else:
            return "judged"
        finally:
            self._budget.spend(thread_time() - began)


def _with(answered: Answered, request: AdmissionRequest) -> Answered:
    """The same with another request. What waits has none of its objects, which are ten times as large as the body."""
    return answered._replace(reviewed=answered.reviewed._replace(request=request))
