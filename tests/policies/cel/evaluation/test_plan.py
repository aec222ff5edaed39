"""What is computed when an expression is compiled. tests/conformance has values and costs of what is folded."""

from __future__ import annotations

import pytest
from support.cel.celrun import exactly, refused

UNDEFINED = "reference to undefined type: kubernetes.UserInfo"
HINT = "a name that holds a type cannot be read in Kubernetes; write dyn(...) where it gets its value: dyn(int)"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("object.x && int('x') == 1", 15, "type conversion error from 'string' to 'int'", ""),
        ("1u + uint(-1)", 9, "unsigned integer overflow", ""),
        ("object[null]", 6, "invalid qualifier type: null_type", ""),
        ("object.find('(')", 11, "error parsing regexp: missing ): (", ""),
        ("type(object) == kubernetes.UserInfo", 26, UNDEFINED, ""),
        ("[int].all(t, t == int)", 13, "reference to undefined type: t", HINT),
    ],
)
def test_constant_parts_that_fail(text: str, place: int, message: str, hint: str) -> None:
    """What cannot be computed beforehand is an error of the compilation, wherever it stands, at its place."""
    assert refused(text) == [(place, message, hint)]


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
