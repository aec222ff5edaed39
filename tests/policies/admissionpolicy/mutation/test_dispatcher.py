"""MutatingAdmissionPolicies change an object one after the other, as kube-apiserver's plugin does."""

from __future__ import annotations

from typing import Any

from support.policies.admissionpolicies import OBJECT, binding, config_map, inputs, mutating, parameters

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy
from policies.admissionpolicy.evaluation.result import Result
from policies.admissionpolicy.model import Expression, NamedExpression, ParamKind, ParamRef
from policies.admissionpolicy.mutation import dispatcher as engine
from policies.admissionpolicy.mutation.dispatcher import Mutated, mutate
from policies.admissionpolicy.schema import built_in
from policies.engine.match import EVERYTHING
from policies.engine.request import GroupVersionKind

SCHEMA = built_in(GroupVersionKind("", "v1", "ConfigMap"))
BINDING = binding(kind="MutatingAdmissionPolicyBinding")
ERROR = "[JSONPatch{op: 'add', path: '/data/b', value: object.data.x}]"
UNKNOWN = "[JSONPatch{op: 'add', path: '/nothing', value: 'x'}]"
AGAIN = "[JSONPatch{op: 'add', path: '/data/a', value: object.data.a + 'x'}]"
WORDS = f"expression '{ERROR}' resulted in error: no such key: x"


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


def test_each_mutation_sees_what_the_last_one_left() -> None:
    """Within a policy and from policy to policy; the object that was given stays as it is."""
    mutated = applied(mutating(add("b"), add("c", "object.data.b + 'y'")), mutating(add("d", "object.data.c")))
    assert data(mutated) == {"a": "1", "b": "x", "c": "xy", "d": "xy"}
    assert OBJECT["data"] == {"a": "1"}


def test_the_time_of_each_policy_is_told() -> None:
    """After each policy, in both rounds, in the order of application; also after one that fails."""
    laps: list[str] = []
    applied(mutating(ERROR, failure_policy="Ignore"), mutating(add("b"), name="q"), lap=laps.append)
    assert laps == ["p", "q", "p", "q"]


def test_what_fails_is_left_out_and_the_rest_is_applied() -> None:
    """Under Fail it refuses the request, under Ignore it is only noted."""
    fails = applied(mutating(ERROR, add("c")))
    ignores = applied(mutating(ERROR, add("c"), failure_policy="Ignore"))
    assert fails.denial is not None
    assert (fails.denial.native, fails.denial.status.code, fails.denial.reason, fails.denial.index) == (
        f"policy 'p' with binding 'b' denied request: {WORDS}",
        403,
        "Invalid",
        0,
    )
    assert [line.endswith("failed: no such key: x") for line in map(str, fails.denial.reasons)] == [True]
    assert (ignores.denial, data(ignores), [each.message for each in ignores.result.ignored]) == (
        None,
        {"a": "1", "c": "x"},
        [WORDS],
    )


def test_a_failed_test_skips_only_its_own_mutation() -> None:
    """No error, and the next one is applied."""
    test = "[JSONPatch{op: 'test', path: '/data/a', value: '9'}, JSONPatch{op: 'add', path: '/data/b', value: 'x'}]"
    mutated = applied(mutating(test, add("c")))
    assert (data(mutated), mutated.denial) == ({"a": "1", "c": "x"}, None)


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


def test_a_policy_that_may_is_invoked_once_more_after_any_change() -> None:
    """Even where the change was its own; one with Never is not."""
    once = applied(mutating(AGAIN))
    twice = applied(mutating(AGAIN, reinvocation_policy="IfNeeded"), mutating(add("b"), name="q"))
    never = applied(mutating(ERROR, reinvocation_policy="IfNeeded", failure_policy="Ignore"))
    assert (data(once)["a"], data(twice)["a"], len(never.result.ignored)) == ("1x", "1xx", 1)


def test_the_match_conditions_see_the_object_as_it_is_by_then() -> None:
    """A policy before can make them true or false."""
    condition = NamedExpression(name="c", expression=Expression(text="has(object.data.b)", path="spec"))
    second = mutating(add("c"), name="q", match_conditions=(condition,))
    assert data(applied(mutating(add("b")), second)) == {"a": "1", "b": "x", "c": "x"}
    skipped = applied(second)
    assert (data(skipped), skipped.result) == ({"a": "1"}, Result())


def test_parameters_are_collected_before_the_first_mutation() -> None:
    """A binding whose parameters are missing is the first cause; each parameter is one invocation."""
    kind = ParamKind(api_version="v1", kind="ConfigMap")
    use = "[JSONPatch{op: 'add', path: '/data/' + params.metadata.name, value: params.data.limit}]"
    compiled = mutating(use, param_kind=kind)
    every = binding(param_ref=ParamRef(selector=EVERYTHING, parameter_not_found_action="Deny"))
    known = parameters(config_map("p", limit="5"), config_map("q", limit="6"))
    assert data(mutate(lambda _: [(compiled, [every])], known, inputs(), SCHEMA)) == {"a": "1", "p": "5", "q": "6"}
    missing = mutate(lambda _: [(compiled, [every])], parameters(), inputs(), SCHEMA)
    assert missing.denial is not None
    assert (missing.denial.native, missing.denial.reason, missing.denial.status.code) == (
        (
            "policy 'p' with binding 'b' denied request: failed to configure binding: "
            "no params found for policy binding with `Deny` parameterNotFoundAction"
        ),
        "Forbidden",
        403,
    )


def test_nothing_is_done_to_what_is_deleted() -> None:
    """There is no object to change, and the plugin does not look at DELETE at all."""
    mutated = applied(mutating(ERROR), obj=None, old=OBJECT, request={"operation": "DELETE"})
    assert (mutated.object, mutated.denial) == (None, None)


def test_what_is_no_object_of_the_api_can_be_patched_but_not_merged() -> None:
    """The options of a connection have no schema."""
    request = {"operation": "CONNECT", "kind": {"group": "", "version": "v1", "kind": "PodExecOptions"}}
    options = {"command": ["ls"]}
    patch = mutating("[JSONPatch{op: 'add', path: '/command/-', value: 'x'}]")
    merge = mutating("Object{command: ['x']}")
    patched = mutate(lambda _: [(patch, [BINDING])], parameters(), inputs(obj=options, request=request), None)
    merged = mutate(lambda _: [(merge, [BINDING])], parameters(), inputs(obj=options, request=request), None)
    assert patched.object == {"command": ["ls", "x"]}
    assert [each.message for each in merged.result.findings] == [
        (
            "error applying patch: failed to convert patch object to typed object: "
            "no corresponding type for /v1, Kind=PodExecOptions"
        )
    ]


def test_what_does_not_compile_fails_by_its_own_words() -> None:
    """Without the `compilation error:` of a validating policy."""
    mutated = applied(mutating("Object{metadata: object.metadata}", "1 + 1"))
    assert [each.message for each in mutated.result.findings] == ["must evaluate to Object but got int"]
