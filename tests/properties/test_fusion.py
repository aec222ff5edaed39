"""Policies that are judged together: the answer is that of each policy by itself."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import TODAY, request
from support.policies.randomrules import rule_set

from policies.cel.library.authorizer import CheckAnswer
from policies.engine import engine
from policies.engine.engine import Answer
from policies.engine.facts import NamespaceKey, StaticFacts
from policies.engine.interruption import Key, Missing
from policies.engine.request import AdmissionRequest
from policies.engine.rule import RuleSet
from properties.shapes import fields, some_of
from properties.test_cel import OBJECTS

_SETS = 40
_names = st.sampled_from(["a", "b", "x", ""])
_PODS = OBJECTS.map(lambda obj: {**obj, "apiVersion": "v1", "kind": "Pod"})
_DEPLOYMENTS = fields(
    metadata=fields(name=_names, namespace=_names),
    spec=fields(template=fields(metadata=fields(labels=st.dictionaries(_names, _names, max_size=2)), spec=fields(
        containers=some_of(fields(image=st.sampled_from(["r/a", "q", ""]))), name=_names
    ))),
).map(lambda obj: {**obj, "apiVersion": "apps/v1", "kind": "Deployment"})  # fmt: skip


class _Facts(StaticFacts, frozen=True):
    """Facts of which some have to be looked up first: Namespace `b`, and all authorization checks."""

    def known(self, key: Key[Any]) -> Any:
        if isinstance(key, NamespaceKey) and key.name != "b":
            return super().known(key)
        raise Missing(key)


@cache
def _rules(seed: int) -> RuleSet:
    """A rule set whose policies were asked about each kind of request, and fused."""
    rules = rule_set(seed)
    for kind in ({"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "apps/v1", "kind": "Deployment"}):
        template: Any = {"metadata": {}, "spec": {"containers": []}}
        obj = {**kind, "metadata": {"name": "a"}, "spec": {"template": template}}
        for old in (None, obj):
            for namespace in ("default", ""):
                _answer(request(obj, old=old, namespace=namespace), rules, StaticFacts(TODAY), together=True)
    for screener in rules.screeners:
        screener.prepare()
    return rules


def _answer(asked: AdmissionRequest, rules: RuleSet, facts: StaticFacts, *, together: bool) -> list[Any]:
    """The answer in a form that can be compared, or the look-ups that it takes before there is one, with it."""
    looked_up: list[Any] = []
    while True:
        try:
            answer = engine.validate(asked, rules, facts, together=together)
        except Missing as missing:
            looked_up.append(missing.key)
            facts = facts.entered(missing.key, _entry(missing.key))
        else:
            return [looked_up, _shown(answer)]


def _entry(key: Any) -> Any:
    return StaticFacts(TODAY).known(key) if isinstance(key, NamespaceKey) else CheckAnswer(allowed=True)


def _shown(answer: Answer) -> list[Any]:
    decisions = [
        (decision.rule, decision.verdict, decision.violations, decision.notes, decision.more, repr(decision.failure))
        for decision in answer.decisions
    ]
    return [answer.allowed, answer.message, answer.warnings, *decisions]


@settings(max_examples=300)
@given(
    st.integers(0, _SETS - 1),
    st.one_of(_PODS, _PODS, _DEPLOYMENTS),
    st.booleans(),
    st.sampled_from(["default", "b", ""]),
    st.sampled_from(["alice", "bob"]),
)
def test_together_as_one_by_one(seed: int, obj: Any, updated: bool, namespace: str, user: str) -> None:  # noqa: FBT001
    """Whatever policies there are and whatever is written, what is found, in which order and in which words is equal.

    So are the facts that are looked up.
    """
    asked = request(obj, old=obj if updated else None, namespace=namespace, user=user, name="a")
    facts = _Facts(TODAY)

    assert _answer(asked, _rules(seed), facts, together=True) == _answer(asked, _rules(seed), facts, together=False)
