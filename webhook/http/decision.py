"""Judges reviews: in the event loop if they are quick, in a child process if they are not.

Rules never wait; this module looks up the values that they miss, and waits for them.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec.structs import asdict, replace

from policies.cel.library.authorizer import Check, CheckAnswer
from policies.engine import engine
from policies.engine.engine import Answer, RuleFailure
from policies.engine.facts import Facts
from policies.engine.interruption import METER, FactUnavailable, Key, Missing, OvertimeError, PostponedError
from policies.engine.request import AdmissionRequest
from policies.engine.rule import POLICY_GROUPS, Phase, Rule, RuleSet
from webhook.child import LAST_WORDS, Child, ChildError
from webhook.heavy import LIMITS, Allowance, NoTurnError, Slice, SlowPolicies, Turns
from webhook.http.health import Readiness
from webhook.http.review import Decoder, ReviewError, encode, head
from webhook.metrics import Metrics, RuleTimes
from webhook.tracing import Span, Trace

T = TypeVar("T")
# Policies and rules change in one replica sooner than in another, so the API server may call paths that have no rules
# yet or any more. An error would then be a refusal if the failure policy is Fail.
GROUPS: Mapping[Phase, frozenset[str]] = {
    "mutate": frozenset({"pods", "workloads", POLICY_GROUPS["Fail"]}),
    "validate": frozenset({"guard", "labels", "topologies", *POLICY_GROUPS.values()}),
}


class Resolver(Protocol):
    """Looks up the values of keys that are not in memory."""

    async def read(self, key: Key[T], seconds: float) -> T:
        """The value of a key, within a time limit. Raises FactUnavailable, and Missing if it does not exist."""


class Route:
    """A path: its phase, its group of rules (None: all of them), and how to decode its reviews.

    Only those parts of an object are decoded that its rules read.
    """

    def __init__(self, phase: Phase, group: str | None, ruleset: RuleSet) -> None:
        self.phase = phase
        self.group = group
        self.decode = Decoder(ruleset.reads(phase, group)).decode


class Served:
    """Rules and facts: everything that a review needs. routes: by path."""

    def __init__(self, ruleset: RuleSet, facts: Facts, resolver: Resolver | None = None) -> None:
        self.ruleset = ruleset
        self.facts = facts
        self.resolver = resolver
        self.routes: dict[str, Route] = {}
        for phase, groups in GROUPS.items():
            self.routes[f"/{phase}"] = Route(phase, None, ruleset)
            for group in ruleset.groups(phase) | groups:
                self.routes[f"/{phase}/{group}"] = Route(phase, group, ruleset)


class ServingState(Readiness):
    """The only state that changes while the service runs. A handler reads `served` once per review."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.served = served
        self.in_flight = 0


# A review depends on the Namespaces of object and requester, and on parameters of matching policies.
LOOKUPS = 32
# The limit of authorization checks in one review: as many as one policy's cost limit allows.
CHECKS = 28
# Reviews with longer bodies are not even decoded in the event loop. Usual ones have 5 to 20 KB.
LARGE = 256 * 1024


class Reviewed(NamedTuple):
    """A judged review: the bytes of the reply, and for logs and metrics the request and its answer.

    If a child process has judged it, the request is without its objects, and only the texts of errors are kept.
    policy: the one for which no time was left. times, used, spans: the seconds of each rule, the parts of cost limits
    that policies used, and the parts of the review, if a child process has judged it.
    """

    reply: bytes
    request: AdmissionRequest
    answer: Answer
    policy: str = ""
    times: Mapping[str, float] = MappingProxyType({})
    used: Mapping[str, float] = MappingProxyType({})
    spans: Sequence[Span] = ()


class _RemoteError(Exception):
    """An error of another process."""

    def __repr__(self) -> str:
        return str(self)


class Judge:
    """Judges the reviews of a process."""

    def __init__(self, metrics: Metrics, slow: SlowPolicies) -> None:
        self._metrics = metrics
        self._slow = slow
        self._turns = Turns()
        self._preparing: asyncio.Future[None] | None = None
        metrics.heavy_waiting.set_function(lambda: self._turns.waiting)

    async def review(
        self, body: bytes, route: Route, served: Served, deadline: float, trace: Trace | None = None
    ) -> Reviewed:
        """The answer to a review. `deadline` is a time of the event loop's clock. Raises ReviewError.

        If a value cannot be found by then, or if there is no time for a rule, the rule fails, and its failure policy
        applies.
        """
        if len(body) > LARGE:
            return await self._heavy(body, head(body), route, served, deadline, trace)
        request = route.decode(body)
        if trace is not None:
            trace.part("decode", bytes=len(body))
            trace.part("match", rules=len(_rules(request, route, served)))
        if not (self._slow.postponed and self._slow.expects(_rules(request, route, served), request.namespace)):
            times = self._metrics.rules.times
            after_rule = times if trace is None else trace.rules(times)
            facts = replace(served.facts, skipped=self._slow.skipped, after_rule=after_rule, spend=times.spend)
            try:
                answer = await self.evaluated(request, route, served, facts, deadline, trace)
                return Reviewed(_encoded(request, answer, trace), request, answer)
            except PostponedError as error:
                self._slow.postpone(error.rule, request.namespace)
                self._prepare(served.ruleset)
        return await self._heavy(body, request, route, served, deadline, trace)

    async def evaluated(
        self,
        request: AdmissionRequest,
        route: Route,
        served: Served,
        facts: Facts,
        deadline: float,
        trace: Trace | None = None,
    ) -> Answer:
        """The answer to a request by some facts. Raises PostponedError if it takes longer than a slice."""
        time = Slice()
        facts = replace(facts, expired=time)
        while True:
            self._metrics.rules.times.begin()
            try:
                answer = time.run(partial(_run, request, route, facts, served))
                if time.is_over:  # rules need not look themselves, and are looked at before each
                    error = PostponedError()
                    error.rule = answer.decisions[-1].rule
                    raise error
            except Missing as missing:
                key = missing.key
            else:
                self._prepare(served.ruleset)
                return answer
            facts = await self._looked_up(facts, key, served.resolver, deadline, trace)

    def _prepare(self, ruleset: RuleSet) -> None:
        """Have what reviews turned out to need made faster, in another thread: one thing at a time.

        What took too long for the event loop before is tried there again: the first review for many policies, of which
        Python compiles each expression, may take that long.
        """
        for screener in ruleset.screeners:
            if screener.is_waiting and (self._preparing is None or self._preparing.done()):
                self._preparing = asyncio.get_running_loop().run_in_executor(None, screener.prepare)
                self._preparing.add_done_callback(lambda _: self._slow.postponed.clear())

    async def _looked_up(
        self, facts: Facts, key: Key[Any], resolver: Resolver | None, deadline: float, trace: Trace | None
    ) -> Facts:
        if trace is not None:
            trace.begin()
        entry = await _entry(key, facts.entries, resolver, deadline - asyncio.get_running_loop().time())
        failed = isinstance(entry, FactUnavailable) or (isinstance(entry, CheckAnswer) and entry.error is not None)
        self._metrics.lookups.labels("failed" if failed else "found").inc()
        if trace is not None:
            trace.part("look-up", key=type(key).__name__, found=not failed)
        return facts.entered(key, entry)

    async def _heavy(
        self,
        body: bytes,
        request: AdmissionRequest | None,
        route: Route,
        served: Served,
        deadline: float,
        trace: Trace | None,
    ) -> Reviewed:
        """The answer from a child process. request: the decoded review, perhaps without its objects."""
        tenant = request.namespace if request is not None else ""
        facts = replace(served.facts, skipped=self._slow.skipped)
        try:
            while True:
                if trace is not None:
                    trace.begin()
                work = partial(_judged, body, route, served, trace=trace and Trace(None, trace.slow))
                result = await self._in_child(work, facts, tenant, deadline)
                if trace is not None:
                    trace.part("child", bytes=len(body))
                if isinstance(result, Reviewed):
                    break
                if not isinstance(result, Key):
                    raise ReviewError(*result)
                facts = await self._looked_up(facts, result, served.resolver, deadline, trace)
        except (NoTurnError, ChildError) as error:
            if request is None:
                raise ReviewError(f"The review could not be read in time: {error}.", 503) from None
            answer = engine.overtime(
                request, served.ruleset, route.phase, route.group, OvertimeError(f"no time was left for it: {error}")
            )
            return Reviewed(encode(request.uid, answer), request, answer)
        self._metrics.rules.times.add(result.times, result.used)
        if trace is not None:
            trace.spans += result.spans
        if result.policy:
            self._slow.overtime(result.policy, dry_run=bool(result.request.dry_run))
        return result

    async def _in_child(self, work: Callable[..., _Result], facts: Facts, tenant: str, deadline: float) -> _Result:
        """What a child process makes of a review in a turn of the tenant. Raises NoTurnError and ChildError."""
        loop = asyncio.get_running_loop()
        async with self._turns.turn(tenant, deadline) as turn:
            child = Child(lambda: [work(facts, deadline - LAST_WORDS - loop.time())], LIMITS)
            turn.end = child.end
            ending = loop.call_at(deadline - LAST_WORDS, child.end)
            try:
                end = await asyncio.shield(child.ended)
            finally:
                ending.cancel()
                child.kill()
                await asyncio.shield(child.ended)
            self._metrics.heavy.labels("ended" if end.reason else "answered").inc()
            if end.reason:
                raise ChildError(f"its process {end.reason}")
            result: _Result = next(end.results())
            return result


_Result = Reviewed | Key[Any] | tuple[str, int]
"""What a child process says: the answer, a value that it misses, or the text and status of an error in the review."""


def _judged(body: bytes, route: Route, served: Served, facts: Facts, seconds: float, *, trace: Trace | None) -> _Result:
    allowance, times = Allowance(seconds), RuleTimes()
    METER.expired = allowance
    signal.signal(signal.SIGALRM, allowance.end)
    try:
        if trace is not None:
            trace.begin()
        request = route.decode(body)
        if trace is not None:
            trace.part("decode", bytes=len(body))
        times.begin()
        after_rule = times if trace is None else trace.rules(times)
        # Not together: when the time is over, the rules that were evaluated until then keep their decisions.
        facts = replace(facts, expired=allowance, after_rule=after_rule, spend=times.spend)
        answer = _run(request, route, facts, served, together=False)
    except Missing as missing:
        key: Key[Any] = missing.key
        return key
    except ReviewError as error:
        return str(error), error.status
    reply = _encoded(request, answer, trace)
    # Not all exceptions can be sent to another process.
    decisions = tuple(
        replace(one, failure=RuleFailure(_RemoteError(repr(one.failure.error)), one.failure.policy))
        if one.failure is not None
        else one
        for one in answer.decisions
    )
    fields = {name: value for name, value in asdict(request).items() if not name.endswith("object")}
    fields["name"] = request.display_name
    return Reviewed(
        reply,
        AdmissionRequest(**fields),
        replace(answer, decisions=decisions),
        allowance.policy,
        times.seconds,
        times.used,
        () if trace is None else trace.spans,
    )


def _encoded(request: AdmissionRequest, answer: Answer, trace: Trace | None) -> bytes:
    if trace is None:
        return encode(request.uid, answer)
    trace.begin()
    reply = encode(request.uid, answer)
    trace.part("encode", operations=len(answer.operations), bytes=len(reply))
    return reply


def _rules(request: AdmissionRequest, route: Route, served: Served) -> tuple[Rule, ...]:
    return served.ruleset.turn(route.phase, request, route.group).rules


def _run(request: AdmissionRequest, route: Route, facts: Facts, served: Served, *, together: bool = True) -> Answer:
    if route.phase == "mutate":
        return engine.mutate(request, served.ruleset, facts, route.group)
    return engine.validate(request, served.ruleset, facts, route.group, together=together)


async def _entry(key: Key[Any], known: Collection[Key[Any]], resolver: Resolver | None, seconds: float) -> Any:
    """The value of a key, or the failure to find it. known: the keys that were looked up in this review."""
    if resolver is None:
        return key.without_cluster()
    checks, is_check = sum(isinstance(other, Check) for other in known), isinstance(key, Check)
    limits = (
        (is_check and checks >= CHECKS, f"over {CHECKS} authorization checks in one review"),
        (not is_check and len(known) - checks >= LOOKUPS, f"one review looks for {LOOKUPS} things at most"),
        (seconds <= 0, "no time was left to ask the API server"),
    )
    for is_reached, reason in limits:
        if is_reached:
            return key.failure(reason)
    try:
        return await resolver.read(key, seconds)
    except FactUnavailable as error:
        return error
    except Missing:
        return FactUnavailable(f"{key.missing}, although it was looked for")
    except Exception as error:  # noqa: BLE001 - a defect in a look-up fails the rules that need it, not the review
        return FactUnavailable(f"{key.missing}: {type(error).__name__}: {error}")


class Answered(NamedTuple):
    """An answered review. body: as it came. path: at which it was asked. seconds: how long the answer took."""

    body: bytes
    path: str
    route: Route
    served: Served
    reviewed: Reviewed
    seconds: float


Follower = Callable[[Answered], None]
"""Is told of each answer before it is sent. It takes next to no time, and raises nothing."""
