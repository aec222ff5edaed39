from __future__ import annotations

from typing import Any

import pytest
from support.cel.celrun import ENVIRONMENT, OBJECT, Failed, exactly, planned

from policies.cel.evaluation.run import Run
from policies.cel.evaluation.step import Constant, Step, failed
from policies.cel.kubernetes import admission
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.program import compile_expression
from policies.cel.values import ABSENT, NONE, Optional

NO_OVERLOAD = Failed("no such overload")
NO_X, NO_Y = Failed("no such key: x"), Failed("no such key: y")


def _plain(value: Any) -> Any:
    """The same with optionals as tuples, which compare by what they hold."""
    if isinstance(value, Optional):
        return ("none",) if value.value is ABSENT else ("some", _plain(value.value))
    return [_plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("1", 1, 0),
        ("object.a", 1, 2),  # 1 to read, 1 per selection
        ("object.a.b", Failed("no such key: b"), 3),
        ("object.x", NO_X, 2),
        ("object.x.y.z", NO_X, 2),
        ("object.m.x", "y", 3),
        ("object['m']['x']", "y", 3),
        ("object.l[0]", 1, 3),
        ("object.l[0u]", 1, 3),
        ("object.l[0.0]", 1, 3),
        ("object.l[3]", Failed("index out of bounds: 3"), 3),
        ("object.l[-1]", Failed("index out of bounds: -1"), 3),
        ("object.l[0.5]", Failed("unsupported index value 0.5 in list"), 3),
        ("object.l['a']", Failed("unsupported index type 'string' in list"), 3),
        ("object.m[0]", Failed("no such key: 0"), 3),
        ("object.l[object.a]", 2, 4),  # the index is an attribute: its own 1 is not charged
        ("object.m[object.x]", NO_X, 4),
        ("object[object.a == 1 ? 'a' : 's']", 1, 5),
        ("(object.a == 1 ? object.m : object.l).x", "y", 5),
    ],
)
def test_attributes(text: str, value: object, cost: int) -> None:
    """A chain costs 1 and 1 for each selection that was tried, also for the one that failed."""
    assert exactly(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("has(object.a)", True, 1),
        ("has(object.x)", False, 1),
        ("has(object.m.x)", True, 2),
        ("has(object.m.y)", False, 2),
        ("has(object.a.b)", False, 2),
        ("has(object.n.y)", False, 2),
        ("has(object.x.y)", NO_X, 1),  # the field itself was not asked for any more
        ("has(object.l[0].y)", False, 3),
        ("has(object.?x.y)", False, 0),
        ("has(object.?m.x)", True, 2),
    ],
)
def test_presence(text: str, value: object, cost: int) -> None:
    """`has` looks at the last field only: what is missing before it is an error, a value without fields has none."""
    assert exactly(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("false && object.x", False, 0),
        ("true || object.x", True, 0),
        ("object.x && false", False, 2),
        ("object.x || true", True, 2),
        ("object.x && true", NO_X, 2),
        ("object.x || false", NO_X, 2),
        ("true && object.x", NO_X, 2),
        ("false || object.x", NO_X, 2),
        ("object.x && object.y", NO_X, 4),
        ("object.x || object.y", NO_X, 4),
        ("object.s && false", False, 2),
        ("object.s || true", True, 2),
        ("object.s && true", NO_OVERLOAD, 2),
        ("object.s || object.x", NO_OVERLOAD, 4),
        ("object.x || object.s", NO_X, 4),
        ("true && true && object.x && false", False, 2),
        ("object.a == 1 || object.x == 1", True, 3),
    ],
)
def test_logic_absorbs_failures(text: str, value: object, cost: int) -> None:
    """A decisive side wins, wherever it stands, and ends the evaluation; else the first failure is the result."""
    assert exactly(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        # object.l: 2. Each turn: the result 1, @not_strictly_false 1, the result 1, x > 0: 2. In the end the result: 1.
        ("object.l.all(x, x > 0)", True, 2 + 3 * 5 + 1),
        # The second element decides; the condition looks once more, 2.
        ("object.l.all(x, x < 2)", False, 2 + 2 * 5 + 2 + 1),
        # The third decides; nobody looks once more.
        ("object.l.all(x, x < 3)", False, 2 + 3 * 5 + 1),
        # x / (x - 1) < 2: 2 + 1 + 1 + 1. 1 fails, 2 is false: the failure is absorbed.
        ("object.l.all(x, x / (x - 1) < 2)", False, 2 + 2 * (3 + 5) + 2 + 1),
        ("object.l.all(x, x / (x - 1) < 9)", Failed("division by zero"), 2 + 3 * (3 + 5) + 1),
        # exists: the condition negates as well, 1 more.
        ("object.l.exists(x, x == 2)", True, 2 + 2 * 6 + 3 + 1),
        ("object.l.exists(x, x == 3)", True, 2 + 3 * 6 + 1),
        ("object.l.exists(x, x / (x - 1) == 2)", True, 2 + 2 * (4 + 5) + 3 + 1),
        ("object.l.exists(x, x / (x - 1) == 7)", Failed("division by zero"), 2 + 3 * (4 + 5) + 1),
        ("object.e.all(x, false)", True, 3),
        ("object.e.exists(x, true)", False, 3),
        ("object.m.all(k, v, k == 'x' && v == 'y')", True, 2 + 3 + 4 + 1),
    ],
)
def test_quantifiers(text: str, value: object, cost: int) -> None:
    """`all` and `exists` absorb failures when another element decides, and stop there."""
    assert exactly(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        # x == 2: 2 per turn; for the one that matches, the result and + are 2 more, for others the result is read
        # without its 1, as a branch. In the end @result == 1: 2.
        ("object.l.exists_one(x, x == 2)", True, 2 + 3 * 2 + 2 + 2),
        ("object.l.exists_one(x, x > 1)", False, 2 + 3 * 2 + 2 * 2 + 2),
        ("object.e.exists_one(x, true)", False, 2 + 2),
        # From the first failure on the result is the failure, but all elements are looked at.
        ("object.l.exists_one(x, x / (x - 1) == 2)", Failed("division by zero"), 21),
        # @result + [x + 1]: 1 + 1 + 10 + 2.
        ("object.l.map(x, x + 1)", [2, 3, 4], 2 + 3 * 14 + 1),
        ("object.l.filter(x, x > 1)", [2, 3], 2 + 3 * 2 + 2 * 13 + 1),
        ("object.l.map(x, x > 1, x * 2)", [4, 6], 2 + 3 * 2 + 2 * 14 + 1),
        ("object.m.map(k, k)", ["x"], 2 + 13 + 1),
        ("object.l.transformList(i, v, i * v)", [0, 2, 6], 2 + 3 * 15 + 1),
        ("object.m.transformMap(k, v, v + 'z')", {"x": "yz"}, 2 + 5 + 1),
        ("object.m.transformMapEntry(k, v, {v: k})", {"y": "x"}, 2 + 34 + 1),
        ("object.l.sortBy(x, -x)", [3, 2, 1], 48),
        ("object.l.transformMapEntry(i, v, {'a': v})", Failed("insert failed: key a already exists"), 102),
    ],
)
def test_building(text: str, value: object, cost: int) -> None:
    """Macros that build lists and maps charge for each list that the reference's step makes."""
    assert exactly(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "message", "cost"),
    [
        ("object.a.all(x, true)", "got 'types.Int', expected iterable type", 2),
        ("object.n.map(x, x)", "got 'types.Null', expected iterable type", 2),
        ("object.s.transformList(i, v, v)", "unsupported comprehension range type: types.String", 2),
        ("object.x.all(x, true)", "no such key: x", 2),
    ],
)
def test_ranges(text: str, message: str, cost: int) -> None:
    """Only lists and maps can be walked over."""
    assert exactly(text) == (Failed(message), cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("true ? 1 : object.x", 1, 0),
        ("false ? object.x : 2", 2, 0),
        ("object.x ? 1 : 2", NO_X, 2),
        ("object.s ? 1 : 2", NO_OVERLOAD, 2),
        ("object.a == 1 ? object.a : object.x", 1, 4),  # condition 3, the branch without its own 1
        ("true ? object.x : 1", NO_X, 1),
        ("(false ? object.x : object.m).x", "y", 2),
    ],
)
def test_choice(text: str, value: object, cost: int) -> None:
    """Only the chosen branch is evaluated; a branch that is an attribute does not cost its own 1."""
    assert exactly(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("object.?a", ("some", 1), 2),
        ("object.?x", ("none",), 1),
        ("object.?x.?y.orValue('d')", "d", 1),
        ("object.?m.x", ("some", "y"), 3),
        ("object.?m.?x.orValue(object.x)", "y", 3),
        ("object.?x.orValue(object.y)", NO_Y, 3),
        ("object.?x.or(object.?a)", ("some", 1), 3),
        ("object.?x.or(object.?y)", ("none",), 2),
        ("object.?x.hasValue()", False, 2),
        ("object.?x.value()", Failed("optional.none() dereference"), 2),
        ("object.l[?7]", ("none",), 2),
        ("object.l[?0]", ("some", 1), 3),
        ("object.l[?'a']", Failed("unsupported index type 'string' in list"), 2),
        ("object.n.?a", ("none",), 2),
        ("object.x.?a", NO_X, 2),
        ("optional.of(object.a).optMap(x, x + 1)", ("some", 2), 11),
        ("optional.none().optMap(x, object.x)", ("none",), 3),
        ("[?object.?a, ?object.?x]", [1], 13),
        ("[object.?a, object.?x]", [("some", 1), ("none",)], 13),
        ("[?object.a]", Failed("cannot initialize optional list element from non-optional value 1"), 12),
        ("{?'a': object.?a, ?'b': object.?x}", {"a": 1}, 33),
        ("{?'a': object.a}", Failed("cannot initialize optional entry 'a' from non-optional value 1"), 32),
        ("{?'a': object.x}", NO_X, 32),
    ],
)
def test_optionals(text: str, value: object, cost: int) -> None:
    """An optional selection costs 1 only where there is a value; the alternative is not evaluated unless needed."""
    found, charged = exactly(text)

    assert (_plain(found), charged) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("[1, 2]", [1, 2], 0),
        ("[object.a]", [1], 12),
        ("[object.x, object.y]", NO_X, 12),
        ("{'a': object.a}", {"a": 1}, 32),
        ("{object.s: object.x}", NO_X, 34),
        ("{object.l: 1}", Failed("unsupported key type: list"), 32),
        ("{object.s: 1, dyn('text'): 2}", {"text": 2}, 32),
        ("kubernetes.UserInfo{username: object.x}", NO_X, 42),
        ("kubernetes.UserInfo{username: 'a'}", Failed("unknown type 'kubernetes.UserInfo'"), 40),
    ],
)
def test_literals(text: str, value: object, cost: int) -> None:
    """A list costs 10, a map 30 and a message 40, also when a part of it fails; constants are made beforehand."""
    assert exactly(text) == (value, cost)


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("object.x + object.y", NO_X, 5),  # binary: both sides are evaluated, and the call is charged
        ("object.s.replace(object.x, object.y)", NO_X, 4),  # more arguments: the first failure ends it, uncharged
        ("object.s.replace('t', object.x)", NO_X, 5),  # the last one failed: charged
        ("object.a + 'x'", NO_OVERLOAD, 3),
        ("object.a / 0", Failed("division by zero"), 3),
        ("size(object.x)", NO_X, 3),
        ("!object.s", NO_OVERLOAD, 3),
        ("string(1) + string(object.a)", "11", 4),  # the first conversion is a constant
        ("object.s == 'a longer text than that'", False, 3),
        ("object.l == [1, 2, 3]", True, 3),
        ("1 in object.l", True, 5 - 2),
        ("object.a in [1, 2]", True, 2),  # a look-up in literals is free
        ("object.x in ['a']", NO_X, 2),
    ],
)
def test_calls(text: str, value: object, cost: int) -> None:
    """Failures of arguments pass through a call; what it costs then depends on how the reference takes them."""
    assert exactly(text) == (value, cost)


def test_costs_of_long_texts() -> None:
    """A comparison passes over the shorter text, a tenth per character; an unknown size counts 1."""
    obj = {"s": "a" * 95, "t": "b" * 41, "n": 5}

    assert exactly("object.s == object.t", obj) == (False, 4 + 5)
    assert exactly("object.s == object.n", obj) == (False, 4 + 1)
    assert exactly("object.s + object.t", obj) == ("a" * 95 + "b" * 41, 4 + 1)
    assert exactly("string(object.s) + object.t", obj)[1] == 4 + 1 + 14
    assert exactly("object.s.contains('aaaaaaaaaaa')", obj) == (True, 2 + 10 * 2)
    assert exactly("object.s.matches('a+b+c+')", obj) == (False, 2 + 10 * 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Object{}", ("Object", {})),
        ("Object{a: object.a}.a", 1),
        ("Object{spec: Object.spec{a: 1}}.spec.a", 1),
        ("has(Object{a: 1}.a)", True),
        ("has(Object{a: 1}.b)", False),
        ("Object{a: 1}.b", None),
        ("Object{?a: object.?x}", ("Object", {})),
        ("Object{?a: object.?a}", ("Object", {"a": 1})),
        ("Object{a: 1}.?b", ("none",)),
        ("JSONPatch{op: 'add', path: '/a', value: 1}.op", "add"),
        ("JSONPatch{op: 'add'}.value", Failed("unsupported indexer: value")),
        ("has(JSONPatch{op: 'add'}.value)", False),
        ("has(JSONPatch{op: 'add'}.path)", False),
        ("JSONPatch{op: dyn(1)}", Failed("unexpected type int64 for JSONPatchType 'op' field")),
    ],
)
def test_messages(text: str, expected: object) -> None:
    """Parts of an object have any field, null where it was not set; a JSONPatch has its own."""
    program = compile_expression(text, admission(patch_types=True))
    evaluation = program.evaluate_exactly({"object": OBJECT})
    found = Failed(str(evaluation.error)) if evaluation.error else evaluation.value
    if isinstance(found, ObjectValue):
        found = (found.name, found.fields)

    assert _plain(found) == expected


def test_a_patch() -> None:
    """The value of a JSONPatch has its fields, and the empty text for those that were not given."""
    program = compile_expression("JSONPatch{op: 'remove', path: '/a'}", admission(patch_types=True))
    value = program.evaluate_exactly({}).value

    assert isinstance(value, JSONPatch)
    assert (value.op, value.path, value.from_, value.value) == ("remove", "/a", "", ABSENT)


def test_lists_are_not_shared_between_evaluations() -> None:
    """The list that a macro builds is a new one each time, and the range stays as it was."""
    program = compile_expression("object.l.map(x, x)", ENVIRONMENT)
    obj = {"l": [1, 2]}
    first, second = (program.evaluate_exactly({"object": obj}).value for _ in range(2))

    assert (first, second, first is second, obj) == ([1, 2], [1, 2], False, {"l": [1, 2]})
    assert type(first) is list


def test_nested_lists_that_grow() -> None:
    """An accumulator that is used inside its own macro's body is not the inner macro's."""
    assert exactly("object.l.map(x, object.l.map(y, x * y))")[0] == [[1, 2, 3], [2, 4, 6], [3, 6, 9]]
    assert exactly("object.l.filter(x, object.l.filter(y, y > x).size() == 1)")[0] == [2]


def test_steps_charge_nothing_of_their_own_kind() -> None:
    """A constant costs nothing, and only a CelError is a failure."""
    run = Run({})

    assert (Constant([1]).evaluate(run), run.cost) == ([1], 0)
    assert [failed(ValueError()), failed(None), failed(NONE)] == [False, False, False]
    with pytest.raises(NotImplementedError):
        Step().evaluate(run)


def test_a_variable_that_is_not_given() -> None:
    """A name that the activation lacks is a failure like any other."""
    run = Run({})
    outcome = planned("object.a").evaluate(run)

    assert (str(outcome), run.cost) == ("no such attribute(s): object", 1)
