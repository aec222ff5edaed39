"""The engine, mutating: rules build on one another, and their operations make one patch of the object as sent."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from support.builders import FACTS, TODAY, Json, NamespacesToAsk, pod, request

from policies.engine.engine import ADMITTED, Answer, Decision, RuleFailure, mutate
from policies.engine.facts import Facts, NamespaceKey, StaticFacts
from policies.engine.interruption import Missing
from policies.engine.match import EVERYTHING, LabelSelector, ResourceRule, SelectorRequirement
from policies.engine.patch import append
from policies.engine.request import AdmissionRequest
from policies.engine.rule import (
    NO_MUTATION,
    FailurePolicy,
    Hook,
    Mutation,
    Mutator,
    PatchOperation,
    PolicyException,
    Rule,
    RuleSet,
)

_PODS = (ResourceRule(("*",), ("",), ("pods",)),)
_TEAM = LabelSelector((SelectorRequirement("team", "Exists"),))
_MISSING: PatchOperation = {"op": "add", "path": "/spec/not/there", "value": 1}


def _rule(
    name: str, mutator: Mutator | None, policy: FailurePolicy = "Ignore", namespaces: LabelSelector = EVERYTHING
) -> Rule:
    return Rule(name, (Hook("mutate", "all", _PODS, policy),), "warn", frozenset(), namespaces, mutate=mutator)


def _appends(*items: Any, warnings: Sequence[str] = ()) -> Mutator:
    """Append what the list does not hold yet."""

    def change(asked: AdmissionRequest, _facts: Facts) -> Mutation:
        present = ((asked.object or {}).get("spec") or {}).get("list") or []
        missing = [item for item in items if item not in present]
        return Mutation(append(asked.object or {}, ("spec", "list"), missing), tuple(warnings))

    return change


def _raises(error: Exception) -> Mutator:
    def change(_asked: AdmissionRequest, _facts: Facts) -> Mutation:
        raise error

    return change


def _patches(*operations: PatchOperation) -> Mutator:
    return lambda _asked, _facts: Mutation(operations)


def _answer(obj: Json | None, *rules: Rule, facts: Facts = FACTS, exceptions: Sequence[PolicyException] = ()) -> Answer:
    asked = request(obj, old=pod() if obj is None else None, namespace="team-a")
    return mutate(asked, RuleSet(rules, exceptions), facts)


def _applied(obj: Json, answer: Answer) -> Any:
    return jsonpatch.apply_patch(obj, deepcopy(list(answer.operations)))


def test_rules_build_on_one_another() -> None:
    """A rule sees the object as the one before it left it: what that one added is neither missing nor added twice.

    A second review of the same object gets the same patch: nothing of the first one is kept.
    """
    obj = {"kind": "Pod", "metadata": {}}
    sent = deepcopy(obj)

    changes = (_appends("x"), _appends("x"), _appends("y", "z"), None)
    rules = [_rule(name, change) for name, change in zip("abcd", changes, strict=True)]

    answer = _answer(obj, *rules)

    assert answer == Answer(
        (Decision("a", "patch"), Decision("b", "admit"), Decision("c", "patch"), Decision("d", "admit")),
        (
            {"op": "add", "path": "/spec", "value": {"list": ["x"]}},
            {"op": "add", "path": "/spec/list/-", "value": "y"},
            {"op": "add", "path": "/spec/list/-", "value": "z"},
        ),
    )
    assert (_applied(obj, answer), obj) == ({**sent, "spec": {"list": ["x", "y", "z"]}}, sent)
    assert _answer(obj, *rules) == answer


def test_nothing_to_change() -> None:
    """Rules that change nothing are on record, with no operation at all."""
    assert _answer(pod(), _rule("a", lambda _asked, _facts: NO_MUTATION)) == Answer((Decision("a", "admit"),))
    assert mutate(request(pod(), resource="nodes"), RuleSet([_rule("a", _appends(1))]), FACTS) is ADMITTED


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_rule_that_fails(policy: FailurePolicy) -> None:
    """A rule that raises follows its failure policy, and the other rules' changes are made all the same."""
    error = ValueError("no")
    changes = (_appends("x"), _raises(error), _appends("y"))
    answer = _answer({"kind": "Pod"}, *(_rule(name, each, policy) for name, each in zip("abc", changes, strict=True)))

    failure = Decision("b", "error", failure=RuleFailure(error, policy))
    assert answer.decisions == (Decision("a", "patch"), failure, Decision("c", "patch"))
    assert (answer.allowed, answer.message.partition("\n")[0], answer.warnings) == (
        (False, "Rule 'b' could not be evaluated (ValueError: no).", ())
        if policy == "Fail"
        else (True, "", ("rule 'b' was skipped, it could not be evaluated: ValueError: no",))
    )
    assert _applied({"kind": "Pod"}, answer) == {"kind": "Pod", "spec": {"list": ["x", "y"]}}


@pytest.mark.parametrize("position", [0, 1, 2], ids=["first", "between", "last"])
def test_a_patch_that_does_not_apply(position: int) -> None:
    """Operations that do not fit are a failure of their rule and never sent: the API server would fail the request."""
    rules = [_rule("a", _appends("x")), _rule("c", _appends("y"))]
    rules.insert(position, _rule("bad", _patches(_MISSING)))

    answer = _answer({"kind": "Pod"}, *rules)

    assert [(decision.rule, decision.verdict) for decision in answer.decisions if decision.verdict != "patch"] == [
        ("bad", "error")
    ]
    assert _applied({"kind": "Pod"}, answer) == {"kind": "Pod", "spec": {"list": ["x", "y"]}}


def test_a_fact_that_is_not_known() -> None:
    """A fact that has to be fetched passes through, whether a rule or its selector asked for it."""
    with pytest.raises(Missing, match=r"^namespace 'team-b' is not known yet$"):
        _answer(pod(), _rule("a", _appends("x")), _rule("b", _raises(Missing(NamespaceKey("team-b")))))
    with pytest.raises(Missing, match=r"^namespace 'team-a' is not known yet$"):
        _answer(pod(), _rule("a", _appends("x"), namespaces=_TEAM), facts=NamespacesToAsk(TODAY))


@pytest.mark.parametrize("label", ["team", "other"])
def test_namespace_selectors(label: str) -> None:
    """Objects in Namespaces that a rule does not select stay as they are."""
    facts = StaticFacts(TODAY, namespaces={"team-a": {label: "a"}})
    answer = _answer(pod(), _rule("a", _appends("x"), namespaces=_TEAM), facts=facts)

    assert bool(answer.operations) is (label == "team")


def test_exceptions() -> None:
    """A request that an exception lets pass a rule is not changed by it; other rules change it."""
    rules = [_rule("a", _appends("x")), _rule("b", _appends("y"))]
    exception = PolicyException("moving", ("a",), "why", TODAY)
    answer = _answer(pod(), *rules, exceptions=[exception])

    assert answer == Answer(
        (Decision("a", "excepted", exception=exception), Decision("b", "patch")),
        ({"op": "add", "path": "/spec/list", "value": ["y"]},),
    )


def test_warnings() -> None:
    """Warnings of mutating rules reach the person in order, each a clean line."""
    answer = _answer(
        pod(),
        _rule("a", _appends(warnings=["first", "second"])),
        _rule("b", _appends("x", warnings=["third\r\nline\x00", "x" * 251])),
    )

    assert answer.warnings == ("first", "second", r"third line\u0000", "x" * 249 + "…")


def test_a_deletion_is_never_patched() -> None:
    """A request without an object gets no operations whatever a rule says: the API server would fail it."""
    answer = _answer(None, _rule("a", _patches({"op": "add", "path": "/a", "value": 1})))

    assert answer.operations == ()
