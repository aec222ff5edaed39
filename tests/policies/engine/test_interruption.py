"""The time for a review: whose failure its end is, and that nothing absorbs it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from support.builders import FACTS, pod, request

from policies.engine import engine
from policies.engine.engine import Answer, overtime
from policies.engine.facts import Facts
from policies.engine.interruption import OvertimeError, PostponedError, TimeLimitError, look
from policies.engine.match import ResourceRule
from policies.engine.request import AdmissionRequest
from policies.engine.rule import FailurePolicy, Hook, Mutation, Rule, RuleSet

_ASKED = request(pod(), namespace="team-a")
_RUNS = pytest.mark.parametrize("run", [engine.validate, engine.mutate], ids=["validate", "mutate"])
Run = Callable[[AdmissionRequest, RuleSet, Facts], Answer]


def _rule(name: str, policy: FailurePolicy, asked: list[str]) -> Rule:
    def judge(_request: AdmissionRequest, facts: Facts) -> tuple[()]:
        asked.append(name)
        try:
            look(facts.expired)
        except Exception:  # noqa: BLE001 - as a rule might
            asked.append("absorbed")
        return ()

    def change(request_: AdmissionRequest, facts: Facts) -> Mutation:
        judge(request_, facts)
        return Mutation()

    pods = (ResourceRule(("*",), ("",), ("pods",)),)
    hooks = (Hook("validate", "all", pods, policy), Hook("mutate", "all", pods, policy))
    return Rule(name, hooks, "deny", frozenset(), validate=judge, mutate=change)


def _clock(error: TimeLimitError, looks: int) -> Callable[[], bool]:
    """A clock of which a number of looks are in time."""
    left = [looks]

    def expired() -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return False

    return expired


@_RUNS
def test_rules_that_had_no_time_have_failed(run: Run) -> None:
    """The rule under evaluation fails, and those after it, each by its failure policy; the ones before keep theirs."""
    asked: list[str] = []
    rules = RuleSet([_rule("a", "Fail", asked), _rule("b", "Ignore", asked), _rule("c", "Fail", asked)])
    error = TimeLimitError("it took longer than 4.9 s")
    answer = run(_ASKED, rules, replace(FACTS, expired=_clock(error, 3)))

    assert [(decision.rule, decision.verdict, decision.denies) for decision in answer.decisions] == [
        ("a", "admit", False),
        ("b", "error", False),
        ("c", "error", True),
    ]
    assert answer.message.startswith("Rule 'c' could not be evaluated (OvertimeError: it took longer than 4.9 s).\n")
    assert answer.warnings == (
        "rule 'b' was skipped, it could not be evaluated: OvertimeError: it took longer than 4.9 s",
    )
    assert (error.policy, error.rule, asked) == ("b", "c", ["a", "b"])


@_RUNS
def test_a_review_that_is_to_be_judged_elsewhere(run: Run) -> None:
    """The end of a slice is nobody's failure: it leaves the engine, with the rule that was under evaluation."""
    asked: list[str] = []
    error = PostponedError()
    with pytest.raises(PostponedError):
        run(_ASKED, RuleSet([_rule("a", "Ignore", asked)]), replace(FACTS, expired=_clock(error, 1)))

    assert (error.policy, error.rule, asked) == ("a", "a", ["a"])


def test_a_clock_that_only_says_yes() -> None:
    """A clock need not raise anything itself."""
    answer = engine.validate(_ASKED, RuleSet([_rule("a", "Fail", [])]), replace(FACTS, expired=lambda: True))
    assert answer.message.startswith("Rule 'a' could not be evaluated (OvertimeError: the time for the review is over)")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_review_that_nobody_could_judge(policy: FailurePolicy) -> None:
    """All rules for the request have failed, and their failure policies apply."""
    rules = RuleSet([_rule("a", policy, []), _rule("b", "Ignore", [])])
    answer = overtime(_ASKED, rules, "validate", None, OvertimeError("no time was left"))

    assert answer.allowed is (policy == "Ignore")
    assert [decision.rule for decision in answer.decisions] == ["a", "b"]
    assert len(answer.warnings) == (2 if policy == "Ignore" else 1)
