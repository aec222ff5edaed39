"""Policies that are judged together: which of them are asked one by one, and why."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import TODAY, WORKLOADS, deployment, pod, request
from support.cel.celrun import compiled, names
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS
from policies.admissionpolicy.rules import policyrule
from policies.cel.cost import EXPRESSION_LIMIT
from policies.engine import engine
from policies.engine.facts import StaticFacts
from policies.engine.interruption import PostponedError
from policies.engine.rule import RuleSet
from webhook.metrics import RuleTimes

FACTS = StaticFacts(TODAY)
_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
  variables: [{{name: v, expression: "{variable}"}}]
  validations: [{{expression: "{expression}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [Deny]}}
---
"""
_LISTS = "[1,1,1,1,1,1,1,1,1,1]"
# Some 12 units of cost for each of 10,000 sums, and ten times that.
_SHARED = f"{_LISTS}.all(b, {_LISTS}.all(c, {_LISTS}.all(d, b + c + d + 1 + 1 + 1 == 6)))"
_COSTLY = f"{_LISTS}.all(a, {_LISTS}.all(b, {_LISTS}.all(c, {_LISTS}.all(d, a + b + c + d == 4))))"
_DEAR = f"{_LISTS}.all(z, {_COSTLY})"


def _rules(*expressions: str, variable: str = "1") -> RuleSet:
    """Policies p0, p1, ..., of one validation each, and of one variable."""
    text = "".join(
        _POLICY.format(name=f"p{index}", expression=expression, variable=variable)
        for index, expression in enumerate(expressions)
    )
    loaded = read(documents(text))
    assert loaded.problems == ()
    return RuleSet(policyrule.validating_rules(loaded.policies, loaded.bindings, NO_PARAMETERS, WORKLOADS))


def _asked(rules: RuleSet, obj: Any, facts: StaticFacts = FACTS) -> list[str]:
    """The policies that are asked one by one after they are fused; before that, all of them are."""
    asked = request(obj)
    ((screener, those),) = rules.turn("validate", asked).screens
    assert set(screener.asked(those, asked, facts)) == {rule.name for rule in rules.rules}
    assert screener.is_waiting
    screener.prepare()
    assert not screener.is_waiting
    return list(screener.asked(those, asked, facts))


def test_only_what_may_have_something_to_say_is_asked() -> None:
    """A policy that is false, fails or reads a failing variable is asked; the others are not."""
    rules = _rules("true", "object.spec.none == 1", "has(object.spec)", "object.kind == 'Job'", "variables.v == 1")

    assert _asked(rules, pod()) == ["p1", "p3"]


def test_a_variable_that_fails_fails_all_that_read_it() -> None:
    """It is written once for both policies, and each of them is asked."""
    rules = _rules("variables.v == 1", "object.kind == 'Pod' || variables.v == 1", "variables.v != 2", variable="1 / 0")

    assert _asked(rules, pod()) == ["p0", "p2"]


def test_what_is_over_a_limit_is_asked() -> None:
    """So are policies that come near it only together, while cheap ones after them are not."""
    assert _asked(_rules("true", _DEAR, "true"), pod()) == ["p1"]


def test_a_shared_variable_costs_each_policy_the_same() -> None:
    """Its cost counts for each policy that reads it, also for one that finds it evaluated."""
    rules = _rules(*["variables.v"] * 10, variable=_SHARED)
    (screener,) = rules.screeners
    asked = request(pod())
    engine.validate(asked, rules, FACTS)
    screener.prepare()
    ((_, those),) = rules.turn("validate", asked).screens

    first = EXPRESSION_LIMIT // 10 // compiled(_SHARED).evaluate(names()).cost
    assert 0 < first < 10
    assert list(screener.asked(those, asked, FACTS)) == [f"p{index}" for index in range(first, 10)]
    assert engine.validate(asked, rules, FACTS).allowed


def test_what_is_used_of_a_limit_is_told() -> None:
    """Of policies that use a tenth of it, whether or not they were judged together first."""
    rules = _rules("true", _COSTLY, _DEAR)
    cost = compiled(_COSTLY).evaluate(names()).cost
    times = RuleTimes()
    asked, facts = request(pod()), StaticFacts(TODAY, spend=times.spend)
    (screener,) = rules.screeners
    for _ in range(2):
        engine.validate(asked, rules, facts)
        screener.prepare()

        (costly, dear), times.used = times.used.items(), {}
        assert (costly, dear[0]) == (("p1", cost / EXPRESSION_LIMIT), "p2")
        assert dear[1] >= 1


def test_a_policy_that_is_skipped_is_asked() -> None:
    """The policy itself then says that it is skipped."""
    facts = StaticFacts(TODAY, skipped=frozenset({"p1"}))

    assert _asked(_rules("true", "true"), pod(), facts) == ["p1"]


def test_templates_are_judged_together() -> None:
    """The Pods that a workload would create are judged by policies on Pods."""
    rules = _rules("object.kind == 'Pod'", "object.spec.containers.all(c, has(c.resources.limits))")

    assert _asked(rules, deployment()) == ["p1"]


def test_an_evaluation_that_takes_too_long_names_its_policy() -> None:
    """Reviews for this rule go to the child process from then on."""

    def expired() -> bool:
        raise PostponedError

    rules = _rules("true", _COSTLY, "true")
    asked = request(pod())
    engine.validate(asked, rules, FACTS)
    for screener in rules.screeners:
        screener.prepare()
    with pytest.raises(PostponedError) as caught:
        engine.validate(asked, rules, StaticFacts(TODAY, expired=expired))

    assert caught.value.rule == "p1"


def test_all_answers_in_which_every_rule_admits_are_one() -> None:
    """No object is made for a policy that has nothing to say."""
    rules = _rules("true", "true")
    _asked(rules, pod())

    first, second = (engine.validate(request(pod(hostname=name)), rules, FACTS) for name in ("a", "b"))

    assert first is second
    assert [decision.rule for decision in first.unanimity or ()] == ["p0", "p1"]
