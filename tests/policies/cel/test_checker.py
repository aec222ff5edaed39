# ruff: noqa: E501 - the messages of the reference stay in one piece
from __future__ import annotations

import pytest
from support.cel.celrun import ENVIRONMENT, refused

from policies.cel.program import Composition, compile_expression

ADD = "declared: bytes + bytes; double + double; duration + duration; duration + timestamp; timestamp + duration; int + int; and 3 more"
CHOICE = "declared: _?_:_(bool, A, A) -> A"
INDEX = "declared: list(A) [_] int; map(A, B) [_] A; optional_type(list(V)) [_] int; optional_type(map(K, V)) [_] K"
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
        ("optional.of(1).orValue('a')", 22, "found no matching overload for 'orValue' applied to 'optional_type(int).(string)'", "declared: optional_type(V).orValue(V) -> V"),
    ],
)  # fmt: skip
def test_errors(text: str, place: int, message: str, hint: str) -> None:
    """An error has our hint beside the reference's words: the nearest name, or what is declared."""
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
