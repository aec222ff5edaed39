from __future__ import annotations

import pytest
from support.cel.celrun import ENVIRONMENT, exactly, planned, refused

from policies.cel.errors import CelError
from policies.cel.evaluation.plan import PlanError, plan
from policies.cel.evaluation.run import Constant
from policies.cel.kubernetes import admission
from policies.cel.program import InstantiationError, compile_expression
from policies.cel.syntax.ast import Entry, Literal
from policies.cel.types import INT
from policies.cel.values import Duration, Timestamp, Uint


def _constant(text: str) -> object:
    step = planned(text)
    return step.value if isinstance(step, Constant) else step


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("int", INT),
        ("[1, 2]", [1, 2]),
        ("[[1], []]", [[1], []]),
        ("{'a': [1]}", {"a": [1]}),
        ("duration('1s')", Duration(1_000_000_000)),
        ("timestamp('1970-01-01T00:00:01Z')", Timestamp(1_000_000_000)),
        ("int('12')", 12),
        ("uint(1)", Uint(1)),
        ("string(1)", "1"),
        ("string(int('7'))", "7"),
        ("[duration('1s')]", [Duration(1_000_000_000)]),
        ("dyn([1])", [1]),
        ("type(1)", INT),
        ("object in []", False),
    ],
)
def test_constants(text: str, value: object) -> None:
    """Literals of literals and conversions of them are computed beforehand, and cost nothing."""
    found = _constant(text)

    assert (type(found), found) == (type(value), value)
    assert exactly(text)[1] == 0


@pytest.mark.parametrize(
    "text",
    [
        "1 + 2",
        "-(1)",
        "quantity('1')",
        "size([1])",
        "'a'.size()",
        "string(object)",
        "[object]",
        "{'a': object}",
        "true && true",
        "true ? 1 : 2",
        "[1].map(x, x)",
        "object in [1, 2]",
        "object in [object]",
        "object in [null, null]",
        "object in {'a': 1}",
        "[1][0]",
    ],
)
def test_what_is_left_to_the_evaluation(text: str) -> None:
    """Only what the reference folds is folded: no arithmetic, no logic, no functions."""
    assert not isinstance(planned(text), Constant)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("int('x')", 3, "type conversion error from 'string' to 'int'"),
        ("1 + int('x')", 7, "type conversion error from 'string' to 'int'"),
        ("object.x && int('x') == 1", 15, "type conversion error from 'string' to 'int'"),
        ("uint(-1)", 4, "unsigned integer overflow"),
        ("object[null]", 6, "invalid qualifier type: null_type"),
        ("object[b'a']", 6, "invalid qualifier type: bytes"),
        ("object.find('(')", 11, "error parsing regexp: missing ): ("),
        ("kubernetes.UserInfo", 10, "reference to undefined type: kubernetes.UserInfo"),
        ("type(object) == kubernetes.UserInfo", 26, "reference to undefined type: kubernetes.UserInfo"),
    ],
)
def test_constant_parts_that_fail(text: str, place: int, message: str) -> None:
    """What cannot be computed beforehand is an error of the compilation, wherever it stands, at its place."""
    with pytest.raises(PlanError) as caught:
        planned(text)
    found = (caught.value.node.position, caught.value.message)

    assert found == (place, message)
    assert refused(text) == [(*found, "")]


def test_the_words_of_the_reference() -> None:
    """Kubernetes says that the program could not be instantiated, and names no place."""
    with pytest.raises(InstantiationError) as caught:
        compile_expression("object[null]", ENVIRONMENT)

    assert caught.value.reference() == "program instantiation failed: invalid qualifier type: null_type"
    assert caught.value.full_reference() == caught.value.reference()


@pytest.mark.parametrize(
    ("text", "obj", "expected"),
    [
        ("object in [1, 2]", 1, True),
        ("object in [1, 2]", 1.0, True),
        ("object in [1, 2]", True, False),
        ("object in [1, 2]", "1", False),
        ("object in ['a', 'b']", "b", True),
        ("object in ['a', 'b']", 1, False),
        ("object in [true]", True, True),
        ("object in [true]", 1, False),
        ("object in [1.5]", 1.5, True),
        ("object in [1u]", 1, True),
    ],
)
def test_look_ups_in_literals(text: str, obj: object, expected: bool) -> None:  # noqa: FBT001
    """A look-up in literal values means what `in` means: numbers by value, never bools for numbers."""
    assert exactly(text, obj) == (expected, 1)


def test_a_literal_map_that_fails_is_a_constant_failure() -> None:
    """A literal map with a key that none can be is no error of the compilation, but of each evaluation."""
    step = planned("{[1]: 2}")

    assert isinstance(step, Constant)
    assert isinstance(step.value, CelError)
    assert step.value.message == "unsupported key type: list"


def test_only_expressions_have_steps() -> None:
    """A part of a map is no expression of its own."""
    literal = Literal(1, position=0, start=0, end=0)
    with pytest.raises(TypeError, match="not an expression"):
        plan(Entry(literal, literal, position=0, start=0, end=0))


def test_a_name_that_holds_a_type_has_a_hint() -> None:
    """What Kubernetes refuses for reasons of its own is refused with a way round it."""
    with pytest.raises(InstantiationError) as found:
        compile_expression("[int].all(t, t == int)", admission())

    assert str(found.value) == (
        "<input>:1:14: reference to undefined type: t\n"
        "[int].all(t, t == int)\n"
        "             ^\n"
        "hint: a name that holds a type cannot be read in Kubernetes; write dyn(...) where it gets its value: dyn(int)"
    )
    assert compile_expression("[dyn(int)].all(t, t == int)", admission()).evaluate({}).value is True
