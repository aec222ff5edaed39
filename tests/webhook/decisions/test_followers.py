"""Who follows answers, while nobody waits for it: owners who are told of refusals, and policies in the shadow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.api.times import Times
from support.builders import Json, pod, request
from support.patience import until
from support.service.reviews import REFUSAL, RESERVED, Fixed, answer_of, body, rule, served, violation
from support.service.servers import Serve, default_rules

from policies.engine.engine import Answer, Decision
from policies.engine.interruption import PostponedError
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.request import Owner
from policies.engine.rule import Hook, Rule, RuleSet
from policies.engine.violation import Violation
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.events import Subject
from webhook.configuration.rules import PolicyRules
from webhook.decisions import shadow
from webhook.decisions.refusals import GLANCE, PAUSE, SHARE, WAITING, Refusals
from webhook.decisions.shadow import Budget, Shadow, Unasked, beside, unasked
from webhook.heavy import SlowPolicies
from webhook.http.decision import LARGE, Answered, Judge, Reviewed, Served
from webhook.metrics import Metrics

_REFUSED = Answer((Decision("limits", "deny", (violation("limits"),)),))
_JOB = Owner("batch/v1", "Job", "train-0", "j")
_TOP = Owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", "t")


class _Telling:
    """A process that tells owners. errors: of the first Events. hold: what each Event waits for."""

    def __init__(self, *errors: ClusterError, hold: asyncio.Event | None = None) -> None:
        self.metrics = Metrics()
        self.times = Times()
        self.told: list[tuple[Any, ...]] = []
        self.writing = 0
        self._errors = list(errors)
        self._hold = hold
        self._tops = {"j": _TOP}
        self.refusals = Refusals(
            self._top, self._write, lambda: str(self.times.date.hour), self.metrics, self.times.clock
        )

    async def _top(self, namespace: str, owner: Owner) -> Owner:
        assert namespace.startswith("default")
        return self._tops.get(owner.uid, owner)

    async def _write(self, about: Subject, reason: str, message: str, *, occasion: str) -> None:
        self.writing += 1
        if self._hold is not None:
            await self._hold.wait()
        if self._errors:
            raise self._errors.pop(0)
        self.told.append((about, reason, message, occasion))

    def answer(self, obj: Json | None, answer: Answer = _REFUSED, **fields: Any) -> None:
        """Have a request answered."""
        where = served()
        reviewed = Reviewed(b"", request(obj, **fields), answer)
        self.refusals(Answered(b"", "/validate", where.routes["/validate"], where, reviewed, 0.0))

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """A block in which owners are told."""
        running = asyncio.create_task(self.refusals.run())
        yield
        running.cancel()
        await asyncio.wait([running])

    async def counted(self) -> dict[str, float]:
        """What was counted, once nothing waits."""
        async with self.telling():
            await until(lambda: not self.refusals._waiting)
            await asyncio.sleep(0)
        (family,) = self.metrics.refusal_events.collect()
        return {s.labels["outcome"]: s.value for s in family.samples if s.name.endswith("_total")}


def _made(owner: Owner = _JOB, **fields: Any) -> Json:
    """A Pod that a controller makes."""
    made = pod(**fields)
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


def _owner(number: int) -> Owner:
    """One of many owners that nobody owns."""
    return Owner("batch/v1", "Job", "train", f"j{number}")


async def test_the_workload_at_the_top_is_told() -> None:
    """One Event in an hour for an owner and the rules that refused, on the workload for which its controller works."""
    site = _Telling()
    for _ in range(3):
        site.answer(_made())
    first = await site.counted()
    site.times.pass_by(3600)
    site.answer(_made())

    assert (first, await site.counted()) == ({"written": 1}, {"written": 2})
    assert site.times.pauses == [PAUSE, PAUSE]
    assert site.told[0] == (
        Subject(_TOP.api_version, "TrainJob", "default", "train", "t"),
        "CreationRefused",
        f"Pod of Job train-0 was refused: {' '.join(_REFUSED.message.split())}",
        "23\nlimits",
    )


async def test_who_knows_already_is_not_told() -> None:
    """No Event where the answer reaches a person, where nothing is refused, or where a controller says it itself."""
    site = _Telling()
    site.answer(pod())
    site.answer(_made(), dry_run=True)
    site.answer(_made(), old=_made())
    site.answer(_made(), Answer((Decision("limits", "warn", (violation("limits"),)),)))
    site.answer(_made(), sub_resource="binding")
    site.answer(_made(Owner("apps/v1", "ReplicaSet", "alone", "r")))

    assert (await site.counted(), site.told, site.times.pauses) == ({}, [], [GLANCE])


async def test_too_many_are_dropped() -> None:
    """So many wait, of one Namespace fewer; the rest is counted, and nobody waits for them."""
    site = _Telling()
    for number in range(WAITING + 5 * SHARE):
        namespace = "default" if number < 2 * SHARE else f"default-{number}"
        site.answer(_made(_owner(number)), namespace=namespace)

    assert await site.counted() == {"dropped": 5 * SHARE}


async def test_a_false_reference_silences_nobody() -> None:
    """An owner's UID in the references of another Namespace, or with another name, does not count as told."""
    site = _Telling()
    site.answer(_made(), namespace="default-2")
    site.answer(_made(Owner("batch/v1", "Job", "other", "j")))
    site.answer(_made())

    assert await site.counted() == {"written": 3}


async def test_a_failure_is_said_once_and_tried_again() -> None:
    """Without the right the log says which is missing, once; a namespace that is gone is no problem."""
    site = _Telling(ApiError("not allowed", 403, 0.0), ApiError("not allowed", 403, 0.0), ApiError("gone", 404, 0.0))
    with capture_logs() as logs:
        for _ in range(4):
            site.answer(_made())
            counted = await site.counted()

    assert counted == {"failed": 3, "written": 1}
    assert logs == [
        {
            "event": "could not write an Event about a refusal",
            "log_level": "warning",
            "reason": "not allowed; a ClusterRole must allow the service's account to list the workload's kind, and to "
            "create events",
            "times": 1,
        }
    ]


async def test_no_answer_waits_for_the_api_server(serve: Serve) -> None:
    """While an Event is not written, and when it fails, the service answers as ever, and the loss is counted."""
    hold = asyncio.Event()
    site = _Telling(ApiError("too slow", 504, 0.0), hold=hold)
    running = await serve(served(*default_rules().rules), followers=[site.refusals])
    async with site.telling():
        first = await running.post(body(_made(labels=RESERVED)))
        await until(lambda: site.writing == 1)
        others = [await running.post(body(_made(_owner(number), labels=RESERVED))) for number in range(SHARE + 1)]
        hold.set()
        await until(lambda: not site.refusals._waiting)

    answers = [answer_of(reply.body) for reply in (first, *others)]
    assert [answer["allowed"] for answer in answers] == [False] * len(answers)
    assert {answer["status"]["message"] for answer in answers} == {REFUSAL}
    assert await site.counted() == {"failed": 1, "dropped": 1}


_BODY = body(pod())


def test_a_budget() -> None:
    """A burst may be spent at once; then the share of the time that passes, and never more than a burst is saved."""
    now = 0.0
    budget = Budget(lambda: now)
    waits = []
    burst, share = shadow.BURST, shadow.SHARE
    for passes, spent in ((0.0, burst + share), (0.0, 0.0), (1.5, 0.0), (1e6, burst + 2 * share), (0.0, 0.0)):
        now += passes
        waits.append(budget.wait())
        budget.spend(spent)

    assert waits == pytest.approx([0.0, 1.0, 0.0, 0.0, 2.0])


class _Shadowing:
    """A process with rules in force, and others in the shadow."""

    def __init__(self, real: Sequence[Rule], others: Sequence[Rule]) -> None:
        self.metrics = Metrics()
        self.judge = Judge(self.metrics, SlowPolicies(self.metrics))
        self.served: Served = served(*real)
        self.shadow = Shadow(self.judge, self.metrics.shadow, None)
        self.shadow.install(PolicyRules(tuple(others)), RuleSet(others), self.served)

    def seen(self, outcome: str) -> float:
        """How many reviews have come to that so far."""
        return float(self.metrics.shadow.reviews.labels(outcome)._value.get())

    async def ask(self, path: str, sent: bytes = _BODY) -> None:
        """Have a review answered."""
        route = self.served.routes[path]
        reviewed = await self.judge.review(sent, route, self.served, asyncio.get_running_loop().time() + 60)
        self.shadow(Answered(sent, path, route, self.served, reviewed, 0.0))

    async def counted(self) -> dict[str, float]:
        """What was counted, once nothing waits: reviews, and decisions."""
        running = asyncio.create_task(self.shadow.run())
        await until(lambda: not self.shadow._waiting)
        running.cancel()
        samples = [s for m in (self.metrics.shadow.reviews, self.metrics.shadow.decisions) for f in m.collect()
                   for s in f.samples]  # fmt: skip
        return {" ".join(s.labels.values()): s.value for s in samples if s.name.endswith("_total")}


def _policy(name: str, group: str, decisions: Any = None) -> Rule:
    return rule(decisions or Fixed([violation(name)]), name=name, group=group, phases=("validate",))


async def test_a_policy_is_asked_where_the_one_in_force_is() -> None:
    """A changed failurePolicy does not part the two; a policy of a new name is asked where it belongs."""
    site = _Shadowing([_policy("a", "policies")], [_policy("a", "policies-ignore"), _policy("b", "policies-ignore")])
    for path in ("/validate/policies", "/validate/policies-ignore", "/validate/labels", "/mutate/policies"):
        await site.ask(path)

    assert await site.counted() == {"judged": 2, "a same": 1, "b refuse": 1}


async def test_what_comes_too_fast_is_dropped() -> None:
    """So many reviews wait, and so many bytes; larger bodies do not wait at all. Each that is dropped is counted."""
    site = _Shadowing([], [_policy("b", "policies")])
    for _ in range(shadow.WAITING + 3):
        await site.ask("/validate/policies")
    large = _Shadowing([], [_policy("b", "policies")])
    sent = body(pod(labels={"a": "x" * (LARGE - len(_BODY) - 100)}))
    for _ in range(shadow.WAITING_BYTES // len(sent) + 2):
        await large.ask("/validate/policies", sent)

    assert (site.seen("dropped"), large.seen("dropped")) == (3, 2)


class _Slow(Fixed):
    """A rule that takes too long, or fails, in each of so many evaluations."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def validate(self, *_: object) -> Sequence[Violation]:
        """Take too long."""
        self.times -= 1
        if self.times >= 0:
            raise PostponedError
        return ()


@pytest.mark.parametrize(("times", "counted"), [(1, {"judged": 1, "b same": 1}), (2, {"late": 1})])
async def test_a_policy_that_takes_too_long(
    times: int, counted: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once more, since Python may have compiled it meanwhile; then it is given up."""
    monkeypatch.setattr(shadow, "_PENALTY", 0.0)
    site = _Shadowing([], [_policy("b", "policies", _Slow(times))])
    await site.ask("/validate/policies")

    assert await site.counted() == counted


async def test_others_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is judged in the shadow while reviews are answered in each turn of the event loop; afterwards all are."""
    monkeypatch.setattr(shadow, "_MOMENT", 0.0)
    site = _Shadowing([], [_policy("b", "policies")])
    running = asyncio.create_task(site.shadow.run())
    for _ in range(20):
        await site.ask("/validate/policies")
        await asyncio.sleep(0)
    judged = site.seen("judged")
    await until(lambda: not site.shadow._waiting)
    running.cancel()

    assert (judged, await site.counted()) == (0, {"judged": 20, "b refuse": 20})


async def test_series_end_with_their_policies() -> None:
    """A policy that is no longer in the shadow has no series, and without any no review is judged."""
    site = _Shadowing([], [_policy("b", "policies")])
    await site.ask("/validate/policies")
    before = await site.counted()
    site.shadow.install(PolicyRules(), RuleSet(()), site.served)
    await site.ask("/validate/policies")

    assert (before, await site.counted()) == ({"judged": 1, "b refuse": 1}, {"judged": 1})


_PODS = ResourceRule(("CREATE",), ("",), ("pods",))
_PRODUCTION = LabelSelector((SelectorRequirement("stage", "In", ("production",)),))


def _rule_of(
    name: str, *resources: ResourceRule, group: str = "policies", namespaces: LabelSelector = EVERYTHING
) -> Rule:
    hook = Hook("validate", group, resources, "Fail", scope="*", namespaces=namespaces)
    return replace(rule(name=name), hooks=(hook,))


def _told(tried: Sequence[Rule], real: Sequence[Rule], *names: str) -> tuple[Unasked, ...]:
    policies = PolicyRules(tuple(tried), names=(*(policy.name for policy in tried), *names))
    in_force = RuleSet(real)
    return unasked(policies, beside(policies, RuleSet(tried), in_force), in_force)


_MORE = ResourceRule(("CREATE", "UPDATE"), ("",), ("pods", "nodes"))
_ALL_OF_A_GROUP = ResourceRule(("*",), ("apps",), ("*",), ("v1",))
_KINDS = [ResourceRule(("CREATE",), ("apps",), (f"kind{number}",)) for number in range(7)]
_SHOWN = "; ".join(f"CREATE kind{number}.apps" for number in range(5))


@pytest.mark.parametrize(
    ("tried", "abouts"),
    [
        (_rule_of("a", _PODS), []),
        (_rule_of("a", _PODS, group="policies-ignore"), []),
        (_rule_of("b", _PODS, group="policies-ignore"), ["CREATE pods"]),
        (_rule_of("b", _MORE), ["UPDATE pods; CREATE, UPDATE nodes"]),
        (_rule_of("b", _ALL_OF_A_GROUP), ["CREATE, UPDATE, DELETE, CONNECT *.apps (v1)"]),
        (_rule_of("b", *_KINDS), [f"{_SHOWN} and 2 more"]),
    ],
    ids=["as-in-force", "of-a-name-in-force", "of-another-failure-policy", "more", "another-group", "many"],
)
def test_what_is_not_sent(tried: Rule, abouts: list[str]) -> None:
    """What no policy in force with the same failurePolicy is for is named, operation by operation."""
    assert [policy.about for policy in _told([tried], [_rule_of("a", _PODS)])] == abouts


def test_namespaces() -> None:
    """If all policies in force are for some Namespaces only, no other is asked about; one in force for all suffices."""
    tried, real = _rule_of("b", _PODS), _rule_of("a", _PODS, namespaces=_PRODUCTION)
    abouts = [
        [policy.about for policy in _told(*sets)]
        for sets in (([tried], [real]), ([tried], [real, _rule_of("c", _PODS)]), ([real], [real]))
    ]

    assert abouts == [["requests of Namespaces without stage In (production)"], [], []]


def test_a_mutating_policy() -> None:
    """It is not asked at all."""
    assert [policy.text for policy in _told([], [], "ours")] == [
        "ours is not asked about anything: it is a mutating policy; see what it changes by check --diff, and replay"
    ]
