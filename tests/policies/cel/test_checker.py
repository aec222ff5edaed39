# ruff: noqa: E501 - the messages of the reference stay in one piece
from __future__ import annotations

import pytest
from support.cel.celrun import ENVIRONMENT, exactly, refused

from policies.cel.program import Composition, compile_expression

ADD = "declared: bytes + bytes; double + double; duration + duration; duration + timestamp; timestamp + duration; int + int; and 3 more"
CHOICE = "declared: _?_:_(bool, A, A) -> A"
INDEX = "declared: list(A) [_] int; map(A, B) [_] A; optional_type(list(V)) [_] int; optional_type(map(K, V)) [_] K"
SAME = "all elements have to be of one type; wrap each in dyn(...) where they really differ"
DURATION = "type conversion error from 'string' to 'google.protobuf.Duration'"
TIMESTAMP = "type conversion error from 'string' to 'google.protobuf.Timestamp'"
UNDEFINED = "reference to undefined type: kubernetes.UserInfo"
HOLDS_A_TYPE = "a name that holds a type cannot be read in Kubernetes; write dyn(...) where it gets its value: dyn(int)"
MEMBERSHIP = "declared: @in(A, list(A)) -> bool; @in(A, map(A, B)) -> bool"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("objct.spec", 0, "undeclared reference to 'objct' (in container '')", "did you mean 'object'?"),
        ("'a'.startWith('b')", 13, "undeclared reference to 'startWith' (in container '')", "did you mean 'startsWith'?"),
        ("request.nme", 7, "undefined field 'nme'", "did you mean 'name'?"),
        ("has(request.nme)", 3, "undefined field 'nme'", "did you mean 'name'?"),
        ("'a'.b", 3, "type 'string' does not support field selection", ""),
        ("string{}", 6, "'string' is not a message type", ""),
        ("kubernetes.UserInfo{username: 1}", 28, "expected type of field 'username' is 'string' but provided type is 'int'", ""),
        ("kubernetes.UserInfo{usernme: 'a'}", 27, "undefined field 'usernme'", "did you mean 'username'?"),
        ("'a'.startsWith(1)", 14, "found no matching overload for 'startsWith' applied to 'string.(int)'", "declared: string.startsWith(string) -> bool"),
        ("1 + 'a'", 2, "found no matching overload for '_+_' applied to '(int, string)'", ADD),
        ("1 == 'a'", 2, "found no matching overload for '_==_' applied to '(int, string)'", "declared: A == A"),
        ("true ? 1 : 'a'", 5, "found no matching overload for '_?_:_' applied to '(bool, int, string)'", CHOICE),
        ("['a']['b']", 5, "found no matching overload for '_[_]' applied to '(list(string), string)'", INDEX),
        ("1 in ['a']", 2, "found no matching overload for '@in' applied to '(int, list(string))'", MEMBERSHIP),
        ("[1].all(i, duration('') > duration('1s'))", 20, "invalid duration argument", DURATION),
        ("timestamp('x')", 10, "invalid timestamp argument", TIMESTAMP),
        ("'a'.matches('(')", 12, "invalid matches argument", "error parsing regexp: missing ): ("),
        ("[1, 'a', 'b']", 4, "expected type 'int' but found 'string'", SAME),
        ("[object.a, 1]", 11, "expected type 'dyn' but found 'int'", SAME),
        ("[1, ?optional.of('a')]", 16, "expected type 'int' but found 'string'", SAME),
        ("{1: 'a', 'b': 'c'}", 9, "expected type 'int' but found 'string'", SAME),
        ("{'a': 1, ?'b': optional.of('c')}", 26, "expected type 'int' but found 'string'", SAME),
        ("object.x && int('x') == 1", 15, "type conversion error from 'string' to 'int'", ""),
        ("1u + uint(-1)", 9, "unsigned integer overflow", ""),
        ("object[null]", 6, "invalid qualifier type: null_type", ""),
        ("object.find('(')", 11, "error parsing regexp: missing ): (", ""),
        ("type(object) == kubernetes.UserInfo", 26, UNDEFINED, ""),
        ("[int].all(t, t == int)", 13, "reference to undefined type: t", HOLDS_A_TYPE),
        ("optional.of(1).orValue('a')", 22, "found no matching overload for 'orValue' applied to 'optional_type(int).(string)'", "declared: optional_type(V).orValue(V) -> V"),
    ],
)  # fmt: skip
def test_errors(text: str, place: int, message: str, hint: str) -> None:
    """An error stands at its place, also that of a literal; beside the reference's words it has our hint."""
    assert refused(text) == [(place, message, hint)]


def test_all_errors_are_found_in_the_order_of_their_places() -> None:
    """One error does not hide the next; what is made of a wrong part is not wrong once more."""
    found = [(place, message) for place, message, _ in refused("(x + 1 == 2) && 'a'.size() == y && 1 + 'a' == 3")]

    assert found == [
        (1, "undeclared reference to 'x' (in container '')"),
        (30, "undeclared reference to 'y' (in container '')"),
        (37, "found no matching overload for '_+_' applied to '(int, string)'"),
    ]


def test_variables() -> None:
    """`variables.x` has the type of its expression, but library types and what fails to compile are dyn."""
    composition = Composition(ENVIRONMENT)
    texts = {"n": "1", "l": "['a']", "q": "quantity('1')", "lq": "[quantity('1')]", "bad": "nothing"}
    for name, text in texts.items():
        composition = composition.declare(name, text)
    shown = {name: str(compile_expression(f"variables.{name}", composition.environment).type) for name in texts}

    assert shown == {"n": "int", "l": "list(string)", "q": "dyn", "lq": "list(dyn)", "bad": "dyn"}


@pytest.mark.parametrize(
    "text",
    [
        "duration(object.a)",
        "'('.matches(object.a)",
        "[dyn(1), dyn('a')]",
        "[1, ?optional.of(2)]",
        "[[], [1]].size() == 2",
        "'%s'.format([[1, 'a']])",
        "'%s'.format([{'a': 1, 'b': 'c'}])",
    ],
)
def test_accepted(text: str) -> None:
    """What is not a literal is not read, dyn is of any type, and within `format` lists may be mixed."""
    assert refused(text) == []


def test_of_a_map_every_mismatch_is_shown() -> None:
    """Every key and value of another type is named, unless there are type errors."""
    assert [place for place, *_ in refused("{'a': 1, 2: 'b', 3: 'c'}")] == [9, 12, 17, 20]
    assert [place for place, *_ in refused("duration('1x') == duration('1s') && 1 == 'a'")] == [38]


@pytest.mark.parametrize(
    ("text", "obj", "expected"),
    [
        ("object in [1, 2]", 1.0, True),
        ("object in [1, 2]", True, False),
        ("object in ['a', 'b']", "b", True),
        ("object in ['a', 'b']", 1, False),
        ("object in [true]", 1, False),
        ("object in [1u]", 1, True),
    ],
)
def test_look_ups_in_literals(text: str, obj: object, expected: bool) -> None:  # noqa: FBT001
    """A look-up in literal values means what `in` means: numbers by value, never bools for numbers."""
    assert exactly(text, obj) == (expected, 1)
