from __future__ import annotations

from typing import Any

import pytest
from support.cel.celrun import checked, compiled

from policies.cel.errors import CelError
from policies.cel.evaluation.dispatch import CallBinding, arguments, bind, fits, literal_pattern, text_only
from policies.cel.syntax.ast import Call, Literal
from policies.cel.types import DOUBLE, DYN, INT, LIST, STRING, UINT, Type, list_of, map_of, parameter
from policies.cel.values import Uint


def _call(text: str) -> Call:
    node = checked(text)
    assert isinstance(node, Call)
    return node


def _bound(text: str) -> CallBinding:
    return bind(_call(text))


def _called(binding: CallBinding, *values: Any) -> Any:
    try:
        return binding.call(*values)
    except CelError as error:
        return ("failed", error.message)


def test_one_overload_is_bound_with_a_guard() -> None:
    """Where the types allow one overload, values of other types are refused by its name and theirs."""
    binding = _bound("object.lowerAscii()")

    assert _called(binding, "AB") == "ab"
    assert _called(binding, 1) == ("failed", "no such overload: lowerAscii(int)")
    assert binding.exact is not None
    assert binding.exact("AB") == "ab"


def test_several_overloads_are_chosen_by_the_values() -> None:
    """Where the types allow several, the first that fits the values runs."""
    binding = _bound("object.isLessThan(object)")
    one, two = (compiled(f"quantity('{number}')").evaluate({}).value for number in (1, 2))
    old, new = (compiled(f"semver('{number}.0.0')").evaluate({}).value for number in (1, 2))

    assert [_called(binding, one, two), _called(binding, new, old)] == [True, False]
    assert _called(binding, one, new) == (
        "failed",
        "no such overload: isLessThan(kubernetes.Quantity, kubernetes.Semver)",
    )
    assert binding.exact is None


def test_one_implementation_for_all_overloads_looks_itself() -> None:
    """Operators are bound as they are."""
    binding = _bound("object + 1")

    assert _called(binding, 1, 2) == 3
    assert _called(binding, "a", 2) == ("failed", "no such overload")
    assert binding.exact is binding.call


@pytest.mark.parametrize(
    ("text", "cost"),
    [("1 + 2", 1), ("object.a + 1", 1), ("duration(object)", 1), ("[1].isSorted()", None), ("'a' + 'b'", None)],
)
def test_costs(text: str, cost: int | None) -> None:
    """The cost is that of the single overload, else that of the name, else 1; None here for one that is computed."""
    found = _bound(text).cost

    assert (found if isinstance(found, int) else None) == cost


@pytest.mark.parametrize(
    ("text", "stepwise"),
    [
        ("1 + 2", False),
        ("object.startsWith('a')", False),
        ("object.isLessThan(object)", True),  # a choice among overloads
        ("'a'.replace('b', 'c')", True),  # three arguments
        ("optional.none()", True),
    ],
)
def test_how_arguments_are_taken(text: str, stepwise: bool) -> None:  # noqa: FBT001
    """One or two arguments of a known overload are evaluated together, else one after the other."""
    assert _bound(text).stepwise is stepwise


def test_arguments() -> None:
    """The target comes first."""
    call, function = _call("'a'.replace('b', 'c')"), _call("size('a')")

    assert [node.value for node in arguments(call) if isinstance(node, Literal)] == ["a", "b", "c"]
    assert [node.value for node in arguments(function) if isinstance(node, Literal)] == ["a"]


@pytest.mark.parametrize(
    ("parameter_", "value", "expected"),
    [
        pytest.param(DYN, object(), True, id="dyn-object-True"),
        (parameter("A"), 1, True),
        (INT, 1, True),
        (INT, True, False),
        (INT, Uint(1), False),
        (UINT, Uint(1), True),
        (DOUBLE, 1, False),
        (STRING, None, False),
        (LIST, [1], True),
        (list_of(STRING), ["a", 1], True),
        (list_of(STRING), [1, "a"], False),
        (list_of(STRING), [], True),
        (list_of(STRING), {}, False),
        (map_of(STRING, INT), {"a": 1}, True),
        (map_of(STRING, INT), {"a": "b"}, False),
        (map_of(STRING, INT), {1: 1}, False),
        (map_of(STRING, INT), {}, True),
        (list_of(list_of(INT)), [["a"]], False),
    ],
    ids=str,
)
def test_fits(parameter_: Type, value: Any, expected: bool) -> None:  # noqa: FBT001
    """A value fits a parameter of its type; of a list or map the first element speaks for all."""
    assert fits(parameter_, value) is expected


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("object.matches('a+')", "a+"),
        ("'a'.find('b')", "b"),
        ("object.findAll('b', 1)", "b"),
        ("object.matches(object)", None),
        ("object.contains('a')", None),
        ("size('a')", None),
    ],
)
def test_literal_patterns(text: str, pattern: str | None) -> None:
    """Only the literal pattern of a search is known beforehand."""
    assert literal_pattern(_call(text)) == pattern


def test_searches_look_at_the_text_only() -> None:
    """With a known pattern the text has to be a text and a limit an int."""
    search = text_only(lambda *values: values)

    assert search("a", "p") == ("a", "p")
    assert search("a", "p", 1) == ("a", "p", 1)
    for values in ((1, "p"), (None, "p"), ("a", "p", 1.0), ("a", "p", True)):
        with pytest.raises(CelError, match=r"^no such overload$"):
            search(*values)
