# ruff: noqa: E501 - the messages of the reference stay in one piece
from __future__ import annotations

import pytest
from support.cel.celrun import ENVIRONMENT, checked, refused

from policies.cel.program import Composition, compile_expression
from policies.cel.syntax.ast import Call

ADD = "declared: bytes + bytes; double + double; duration + duration; duration + timestamp; timestamp + duration; int + int; and 3 more"
CHOICE = "declared: _?_:_(bool, A, A) -> A"
INDEX = "declared: list(A) [_] int; map(A, B) [_] A; optional_type(list(V)) [_] int; optional_type(map(K, V)) [_] K"
MEMBERSHIP = "declared: @in(A, list(A)) -> bool; @in(A, map(A, B)) -> bool"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("objct.spec", 0, "undeclared reference to 'objct' (in container '')", "did you mean 'object'?"),
        ("[1].all(item, itm > 0)", 14, "undeclared reference to 'itm' (in container '')", "did you mean 'item'?"),
        ("frobnicate(1)", 10, "undeclared reference to 'frobnicate' (in container '')", ""),
        ("'a'.startWith('b')", 13, "undeclared reference to 'startWith' (in container '')", "did you mean 'startsWith'?"),
        ("Foo{}", 3, "undeclared reference to 'Foo' (in container '')", ""),
        ("request.nme", 7, "undefined field 'nme'", "did you mean 'name'?"),
        ("request.kind.knd", 12, "undefined field 'knd'", "did you mean 'kind'?"),
        ("request.object", 7, "undefined field 'object'", ""),
        ("has(request.nme)", 3, "undefined field 'nme'", "did you mean 'name'?"),
        ("variables.x", 9, "undefined field 'x'", ""),
        ("'a'.b", 3, "type 'string' does not support field selection", ""),
        ("string{}", 6, "'string' is not a message type", ""),
        ("request{}", 7, "undeclared reference to 'request' (in container '')", ""),
        ("kubernetes.UserInfo{username: 1}", 28, "expected type of field 'username' is 'string' but provided type is 'int'", ""),
        ("kubernetes.UserInfo{usernme: 'a'}", 27, "undefined field 'usernme'", "did you mean 'username'?"),
        ("'a'.startsWith(1)", 14, "found no matching overload for 'startsWith' applied to 'string.(int)'", "declared: string.startsWith(string) -> bool"),
        ("1 + 'a'", 2, "found no matching overload for '_+_' applied to '(int, string)'", ADD),
        ("[1] + ['a']", 4, "found no matching overload for '_+_' applied to '(list(int), list(string))'", ADD),
        ("!1", 0, "found no matching overload for '!_' applied to '(int)'", "declared: !_(bool) -> bool"),
        ("-'a'", 0, "found no matching overload for '-_' applied to '(string)'", "declared: -_(double) -> double; -_(int) -> int"),
        ("1 == 'a'", 2, "found no matching overload for '_==_' applied to '(int, string)'", "declared: A == A"),
        ("1 == null", 2, "found no matching overload for '_==_' applied to '(int, null)'", "declared: A == A"),
        ("1 ? 2 : 3", 2, "found no matching overload for '_?_:_' applied to '(int, int, int)'", CHOICE),
        ("true ? 1 : 'a'", 5, "found no matching overload for '_?_:_' applied to '(bool, int, string)'", CHOICE),
        ("['a']['b']", 5, "found no matching overload for '_[_]' applied to '(list(string), string)'", INDEX),
        ("{'a': 1}[1]", 8, "found no matching overload for '_[_]' applied to '(map(string, int), int)'", INDEX),
        ("1 in ['a']", 2, "found no matching overload for '@in' applied to '(int, list(string))'", MEMBERSHIP),
        ("true && 1", 8, "expected type 'bool' but found 'int'", ""),
        ("'a' || true", 0, "expected type 'bool' but found 'string'", ""),
        ("[1].all(x, x)", 11, "expected type 'bool' but found 'int'", ""),
        ("[1].filter(x, 1)", 10, "found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'", CHOICE),
        ("1.all(x, true)", 0, "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)", ""),
        ("'abc'.map(x, x)", 0, "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)", ""),
        ("[?1]", 2, "expected type 'optional_type(int)' but found 'int'", ""),
        ("{?'a': 1}", 7, "expected type 'optional_type(int)' but found 'int'", ""),
        ("optional.of(1).orValue('a')", 22, "found no matching overload for 'orValue' applied to 'optional_type(int).(string)'", "declared: optional_type(V).orValue(V) -> V"),
    ],
)  # fmt: skip
def test_errors(text: str, place: int, message: str, hint: str) -> None:
    """An error has the reference's place and words, and our hint: the nearest name, or what is declared."""
    assert refused(text) == [(place, message, hint)]


def test_all_errors_are_found_in_the_order_of_their_places() -> None:
    """One error does not hide the next; what is made of a wrong part is not wrong once more."""
    found = [(place, message) for place, message, _ in refused("(x + 1 == 2) && 'a'.size() == y && 1 + 'a' == 3")]

    assert found == [
        (1, "undeclared reference to 'x' (in container '')"),
        (30, "undeclared reference to 'y' (in container '')"),
        (37, "found no matching overload for '_+_' applied to '(int, string)'"),
    ]


def test_a_macro_variable_ends_with_its_macro() -> None:
    """Behind a macro its variable is unknown, and within it hides a variable of the same name."""
    assert refused("[1].all(x, x > 0) && x")[0][:2] == (21, "undeclared reference to 'x' (in container '')")
    assert refused("['a'].all(request, request.startsWith('b'))") == []
    assert refused("[1].all(request, request.name == 'a')")[0][:2] == (
        24,
        "type 'int' does not support field selection",
    )


def test_variables() -> None:
    """`variables.x` has the type of its expression, but library types and what fails to compile are dyn."""
    composition = Composition(ENVIRONMENT)
    texts = {"n": "1", "l": "['a']", "q": "quantity('1')", "lq": "[quantity('1')]", "bad": "nothing"}
    for name, text in texts.items():
        composition = composition.declare(name, text)
    shown = {name: str(compile_expression(f"variables.{name}", composition.environment).type) for name in texts}

    assert shown == {"n": "int", "l": "list(string)", "q": "dyn", "lq": "list(dyn)", "bad": "dyn"}


def test_overloads_that_may_run() -> None:
    """With dyn among the arguments all overloads that fit stay candidates, in the order of their declaration."""
    tree = checked("object.a < 1")

    assert isinstance(tree, Call)
    assert [each.id for each in tree.overloads] == ["less_int64", "less_uint64_int64", "less_double_int64"]
