"""Shadow policies: their budget, what is dropped, and where they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import pod
from support.patience import until
from support.service.reviews import Fixed, body, rule, served, violation

from policies.engine.interruption import PostponedError
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.rule import Hook, Rule, RuleSet
from policies.engine.violation import Violation
from webhook.configuration.rules import PolicyRules
from webhook.decisions import shadow as module
from webhook.decisions.shadow import BURST, SHARE, WAITING, WAITING_BYTES, Budget, Shadow, Unasked, beside, unasked
from webhook.heavy import SlowPolicies
from webhook.http.decision import LARGE, Answered, Judge, Served
from webhook.metrics import Metrics

_BODY = body(pod())


def test_a_budget() -> None:
    """A burst may be spent at once; then the share of the time that passes, and never more than a burst is saved."""
    now = 0.0
    budget = Budget(lambda: now)
    waits = []
    for passes, spent in ((0.0, BURST + SHARE), (0.0, 0.0), (1.5, 0.0), (1e6, BURST + 2 * SHARE), (0.0, 0.0)):
        now += passes
        waits.append(budget.wait())
        budget.spend(spent)

    assert waits == pytest.approx([0.0, 1.0, 0.0, 0.0, 2.0])


class _Site:
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
    site = _Site([_policy("a", "policies")], [_policy("a", "policies-ignore"), _policy("b", "policies-ignore")])
    for path in ("/validate/policies", "/validate/policies-ignore", "/validate/labels", "/mutate/policies"):
        await site.ask(path)

    assert await site.counted() == {"judged": 2, "a same": 1, "b refuse": 1}


async def test_what_comes_too_fast_is_dropped() -> None:
    """So many reviews wait, and so many bytes; larger bodies do not wait at all. Each that is dropped is counted."""
    site = _Site([], [_policy("b", "policies")])
    for _ in range(WAITING + 3):
        await site.ask("/validate/policies")
    large = _Site([], [_policy("b", "policies")])
    sent = body(pod(labels={"a": "x" * (LARGE - len(_BODY) - 100)}))
    for _ in range(WAITING_BYTES // len(sent) + 2):
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
    monkeypatch.setattr(module, "_PENALTY", 0.0)
    site = _Site([], [_policy("b", "policies", _Slow(times))])
    await site.ask("/validate/policies")

    assert await site.counted() == counted


async def test_others_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is judged in the shadow while reviews are answered in each turn of the event loop; afterwards all are."""
    monkeypatch.setattr(module, "_MOMENT", 0.0)
    site = _Site([], [_policy("b", "policies")])
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
    site = _Site([], [_policy("b", "policies")])
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
