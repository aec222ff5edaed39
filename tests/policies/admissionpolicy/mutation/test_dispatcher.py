"""MutatingAdmissionPolicies change an object one after the other, as kube-apiserver's plugin does."""

from __future__ import annotations

from typing import Any

from support.policies.admissionpolicies import binding, inputs, mutating, parameters

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy
from policies.admissionpolicy.evaluation.validator import Result
from policies.admissionpolicy.model import Expression, NamedExpression
from policies.admissionpolicy.mutation import dispatcher as engine
from policies.admissionpolicy.mutation.dispatcher import Mutated
from policies.admissionpolicy.schema import built_in
from policies.engine.request import GroupVersionKind

SCHEMA = built_in(GroupVersionKind("", "v1", "ConfigMap"))
BINDING = binding(kind="MutatingAdmissionPolicyBinding")
ERROR = "[JSONPatch{op: 'add', path: '/data/b', value: object.data.x}]"
UNKNOWN = "[JSONPatch{op: 'add', path: '/nothing', value: 'x'}]"


def add(key: str, value: str = "'x'") -> str:
    """A patch that adds an entry."""
    return f"[JSONPatch{{op: 'add', path: '/data/{key}', value: {value}}}]"


def applied(*policies: CompiledPolicy, **fields: Any) -> Mutated:
    """What policies make of the object, each with one binding."""
    selected = [(each, [BINDING]) for each in policies]
    return engine.mutate(lambda _: selected, parameters(), inputs(**fields), SCHEMA)


def data(mutated: Mutated) -> dict[str, str]:
    """The entries of the object after it."""
    found: dict[str, str] = (mutated.object or {})["data"]
    return found


def test_the_time_of_each_policy_is_told() -> None:
    """After each policy, in both rounds, in the order of application; also after one that fails."""
    laps: list[str] = []
    applied(mutating(ERROR, failure_policy="Ignore"), mutating(add("b"), name="q"), lap=laps.append)
    assert laps == ["p", "q", "p", "q"]


def test_a_result_that_is_no_such_object_ends_everything() -> None:
    """An internal error, whatever the failurePolicy; it hides what was found before."""
    mutated = applied(mutating(ERROR, UNKNOWN, add("c"), failure_policy="Ignore"), mutating(add("d")))
    assert mutated.denial is not None
    assert (mutated.denial.native, mutated.denial.status.code, mutated.denial.reason, data(mutated)) == (
        'Internal error occurred: strict decoding error: unknown field "nothing"',
        500,
        "InternalError",
        {"a": "1"},
    )


def test_the_match_conditions_see_the_object_as_it_is_by_then() -> None:
    """A policy before can make them true or false."""
    condition = NamedExpression(name="c", expression=Expression(text="has(object.data.b)", path="spec"))
    second = mutating(add("c"), name="q", match_conditions=(condition,))
    assert data(applied(mutating(add("b")), second)) == {"a": "1", "b": "x", "c": "x"}
    skipped = applied(second)
    assert (data(skipped), skipped.result) == ({"a": "1"}, Result())


def test_what_does_not_compile_fails_by_its_own_words() -> None:
    """Without the `compilation error:` of a validating policy."""
    mutated = applied(mutating("Object{metadata: object.metadata}", "1 + 1"))
    assert [each.message for each in mutated.result.findings] == ["must evaluate to Object but got int"]
