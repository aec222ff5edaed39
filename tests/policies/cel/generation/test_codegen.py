from __future__ import annotations

from typing import Any

import pytest
from support.cel.celrun import compiled, exactly, generated, names

from policies.cel.generation.codegen import Generated
from policies.cel.generation.support import PASS, HandOverError, certain_guard, guard
from policies.cel.values import BudgetError
from policies.engine.interruption import TimeLimitError


@pytest.mark.parametrize(
    ("text", "obj", "value"),
    [
        ("object.a == 1", {"a": True}, False),
        ("object.a == true", {"a": 1}, False),
        ("object.a == 1", {"a": 1.0}, True),
        ("object.a in [1, 2]", {"a": True}, False),
        ("'a' in object.a", {"a": {"a": None}}, True),
        ("object.a < 2", {"a": 1.5}, True),
        ("object.a == object.b", {"a": 1, "b": True}, False),
        ("object.a == object.b", {"a": [1], "b": [True]}, False),
        ("object.a == object.b", {"a": {"x": 1}, "b": {"x": 1.0}}, True),
    ],
)
def test_where_python_differs(text: str, obj: Any, value: bool) -> None:  # noqa: FBT001
    """Python's `True == 1` and its kin do not shine through."""
    found = generated(text, obj)

    assert found == exactly(text, obj)
    assert found is not None
    assert found[0] is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("object.a in dyn('abc')", "a"),
        ("object.a < 2", True),
        ("object.a + 1", True),
        ("object.a * 2", "ab"),
        ("object.a ? 1 : 2", 1),
        ("object.a && true", 1),
    ],
)
def test_bools_are_no_numbers_and_texts_no_lists(text: str, value: object) -> None:
    """What Python would compute and CEL does not is left to the exact evaluator."""
    assert generated(text, {"a": value}) is None


def test_long_texts_are_left_to_the_exact_evaluator() -> None:
    """A text beyond the table of costs ends the function; the cost is right all the same."""
    for length in (len(PASS) - 1, len(PASS), 34_000):
        obj = {"a": "a" * length}
        program = compiled("object.a.contains('b')")
        assert (generated("object.a.contains('b')", obj) is None) is (length >= len(PASS))
        assert program.evaluate(names(obj)).cost == 2 + -(-length // 10)


@pytest.mark.parametrize(
    "text",
    [
        "object.l.map(x, object.x).size() == 0 || object.a == 1",
        "has(object.a) && object.l.all(object, object > 0) && object.a == 1",
        "has(object.x) ? object.x : object.a",
        "object.a == 1 || object.x == 1",
        "object.e.all(x, object.x)",
        "object.?a.orValue(object.x)",
        "object.?a.or(object.x).hasValue()",
        "object.l.exists(x, x == 2 || object.x)",
    ],
)
def test_what_is_not_needed_is_not_computed(text: str) -> None:
    """What the reference does not evaluate cannot fail in the function."""
    exact, found = exactly(text), generated(text)

    assert found is None or found == exact
    assert text.startswith(("object.l.map", "object.l.exists", "object.?a.or(")) or found is not None


def test_a_function_that_python_does_not_take() -> None:
    """Source that does not compile makes no function."""
    assert Generated(f"evaluate = {'(' * 500}{')' * 500}", {}).load() is None


def test_over_the_limit() -> None:
    """A loop that costs more than the limit is left at a mark, and the exact evaluator says where it ended."""
    obj = {"l": list(range(3000))}
    text = "object.l.all(x, x >= 0)"
    evaluation = compiled(text).evaluate(names(obj), limit=5000)

    assert generated(text, obj, limit=5000) is None
    assert isinstance(evaluation.error, BudgetError)
    assert (evaluation.value, evaluation.cost, evaluation.error.cost) == (None, 5001, 5001)
    assert compiled(text).evaluate(names(obj), limit=15_003).cost == 15_003
    assert compiled(text).evaluate(names(obj), limit=15_002).cost == 15_003


def test_marks() -> None:
    """Loops look at the limit and the clock each 4,000 units. A certain one knows what is charged early."""
    assert guard(30_000, 1_000_000, None) == 34_000
    assert guard(38_000, 40_000, lambda: False) == 40_000
    with pytest.raises(HandOverError):
        guard(40_001, 40_000, None)
    assert certain_guard(40_007, 40_000, None, 7) == 40_007
    with pytest.raises(BudgetError) as caught:
        certain_guard(40_008, 40_000, None, 7)
    assert (caught.value.cost, caught.value.certain) == (40_001, True)
    with pytest.raises(TimeLimitError):
        guard(30_000, 1_000_000, lambda: True)
    with pytest.raises(TimeLimitError):
        certain_guard(30_000, 1_000_000, lambda: True, 0)
