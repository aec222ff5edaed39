"""CEL against itself: equality and order, both ways of evaluating, and objects that stay as they are."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.cel.celexpressions import EXPRESSIONS
from support.cel.celrun import compiled, names

from policies.cel.equality import compare, contains, equal, find
from policies.cel.program import Evaluation, Program
from policies.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    BudgetError,
    CelError,
    Duration,
    Optional,
    Timestamp,
    Uint,
)
from properties.shapes import fields, some_of

_many = settings(max_examples=300)
_EDGES = [0, 1, -1, 2**53, 2**53 + 1, INT_MIN, INT_MAX]
_numbers = st.one_of(
    st.sampled_from(_EDGES),
    st.integers(INT_MIN, INT_MAX),
    st.sampled_from([Uint(abs(edge) % 2**64) for edge in _EDGES]),
    st.integers(0, UINT_MAX).map(Uint),
    st.sampled_from([float(edge) for edge in _EDGES]),
    st.floats(allow_nan=False),
)
_times = st.one_of(st.integers(-9, 9).map(Duration), st.builds(Timestamp, st.integers(-9, 9), st.sampled_from([0, 60])))
_scalars = st.one_of(
    st.none(), st.booleans(), _numbers, st.text(max_size=3), st.binary(max_size=3), st.integers(0, 2), _times
)
_keys = st.one_of(st.booleans(), st.integers(-2, 3), st.integers(0, 3).map(Uint), st.text(max_size=2))
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=3), inner.map(Optional), st.just(Optional())
    ),
    max_leaves=5,
)


@_many
@given(_values, _values)
def test_equality_is_symmetric(left: Any, right: Any) -> None:
    """Whichever side a value stands on, it equals the same others, and a copy of itself."""
    assert equal(left, right) is equal(right, left)
    assert equal(left, deepcopy(left, {id(ABSENT): ABSENT})) is True


@_many
@given(st.one_of(st.tuples(_numbers, _numbers), st.tuples(_scalars, _scalars)))
def test_order_and_equality_agree(pair: tuple[Any, Any]) -> None:
    """What has an order is equal when neither comes first, and the order turns with the sides.

    Numbers have one whatever their types are; what else has none is not of one type.
    """
    left, right = pair
    try:
        order = compare(left, right)
    except CelError:
        assert type(left) is not type(right) or left is None
        assert not all(isinstance(side, int | float | Uint) and not isinstance(side, bool) for side in pair)
    else:
        assert (order == 0) is equal(left, right)
        assert compare(right, left) == -order


@_many
@given(st.lists(_values, max_size=4), _values)
def test_a_list_contains_what_equals_an_element(items: list[Any], item: Any) -> None:
    """`in` is equality with one of the elements."""
    assert contains(items, item) is any(equal(item, each) for each in items)
    assert all(contains(items, each) for each in items)


@_many
@given(st.dictionaries(_keys, st.integers(), max_size=4), _keys)
def test_a_map_finds_the_keys_that_are_equal(mapping: dict[Any, Any], key: Any) -> None:
    """A key is found where an equal one is stored, and gives that one's value."""
    stored = [value for known, value in mapping.items() if equal(known, key)]

    assert find(mapping, key) is (stored[0] if stored else ABSENT)


_PROGRAMS = [compiled(text) for text in EXPRESSIONS]
_NAMES = st.sampled_from(["a", "b", "x", "", "a-b", "12", "name"])
_ports = some_of(fields(port=st.integers(1000, 1050)))
OBJECTS = fields(
    metadata=fields(
        name=_NAMES,
        namespace=_NAMES,
        labels=st.dictionaries(_NAMES, _NAMES, max_size=3),
        finalizers=some_of(_NAMES),
    ),
    spec=fields(
        replicas=st.integers(-1, 4),
        paused=st.booleans(),
        name=_NAMES,
        memory=st.sampled_from(["1Gi", "2Gi", "500m", "x"]),
        timeout=st.sampled_from(["1s", "1h", "x"]),
        containers=some_of(fields(image=st.sampled_from(["r/a", "r/b", "q", ""]), ports=_ports)),
    ),
    a=_NAMES,
)


def _comparable(value: Any) -> Any:
    """Value and class at once, for `1` and `true` are equal in Python."""
    if isinstance(value, Optional):
        return ("optional", _comparable(value.value))
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if isinstance(value, dict):
        return {key: _comparable(each) for key, each in value.items()}
    return (type(value), value)


def _outcome(evaluation: Evaluation) -> tuple[Any, int, str]:
    return _comparable(evaluation.value), evaluation.cost, repr(evaluation.error)


def _disagreements(programs: list[Program], given_: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    pairs = ((each.source.text, each.evaluate(given_), each.evaluate_exactly(given_)) for each in programs)
    return [(text, usual, exact) for text, usual, exact in pairs if _outcome(usual) != _outcome(exact)]


@settings(max_examples=150)
@given(OBJECTS, OBJECTS)
def test_both_evaluators_agree(obj: Any, old: Any) -> None:
    """On any object each expression has the same value or error, and the same cost, however it is evaluated."""
    assert _disagreements(_PROGRAMS, names(obj, oldObject=old)) == []


_LEAVES = ["object.a", "object.x", "object.spec.replicas", "dyn(1)", "dyn('a')", "dyn(true)", "dyn(null)", "dyn(y)"]
_FORMS = (
    "[{0}]", "{{'a': {0}}}", "[{0}, {1}]", "({0} in [])", "({0} in [{1}])", "({0} in {{'a': {1}}})",
    "({0} == {1})", "({0} != [])", "({0} ? {1} : {0})", "({0} || {1})", "({0} && {1})", "[1, 2].map(y, {0})",
    "[{0}].filter(y, {1})", "[{0}].exists(y, {1})", "size({0})", "type({0}) == int", "[?object.?x, {0}]", "{0}['a']",
    "has(object.x) ? {0} : {1}",
)  # fmt: skip


def _forms(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda form, *parts: f"dyn({form.format(*parts)})", st.sampled_from(_FORMS), inner, inner)


@settings(max_examples=200)
@given(OBJECTS, st.recursive(st.sampled_from(_LEAVES), _forms, max_leaves=8))
def test_both_evaluators_agree_on_made_up_expressions(obj: Any, text: str) -> None:
    """Literals, tests of membership and macros within each other have one value and one cost, whatever is in them."""
    assert _disagreements([compiled(f"[1, 2, 3].map(y, {text})")], names(obj)) == []


@settings(max_examples=80)
@given(OBJECTS, st.integers(0, 60))
def test_both_evaluators_agree_on_the_limit(obj: Any, limit: int) -> None:
    """Under a small limit the end comes at the same cost, or there is the same value.

    Whoever does not need the cost of an expression over its limit learns the same without a second evaluation.
    """
    for program in _PROGRAMS:
        usual, exact = (run(names(obj), limit=limit) for run in (program.evaluate, program.evaluate_exactly))
        assert (program.source.text, _outcome(usual)) == (program.source.text, _outcome(exact))
        short = program.evaluate(names(obj), limit=limit, exact=False)
        same = (short.value, str(short.error)) == (exact.value, str(exact.error))
        assert same or isinstance(short.error, BudgetError), program.source.text
        assert isinstance(short.error, BudgetError) == isinstance(exact.error, BudgetError), program.source.text


@settings(max_examples=100)
@given(OBJECTS)
def test_evaluation_changes_nothing(obj: Any) -> None:
    """After all expressions the object is what it was, key for key and in the same order."""
    given_ = names(obj, oldObject=deepcopy(obj))
    before = deepcopy(given_["object"])
    for program in _PROGRAMS:
        program.evaluate(given_)
        program.evaluate_exactly(given_)

    assert (given_["object"], repr(given_["object"])) == (before, repr(before))
    assert repr(given_["oldObject"]) == repr(before)
