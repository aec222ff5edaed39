from __future__ import annotations

import pytest

from policies.cel.environment import (
    NEW,
    NOT_A_VALUE,
    STANDARD_TYPES,
    STORED,
    Declared,
    Dialect,
    Environment,
    Feature,
    Function,
    Library,
    Overload,
    merged,
)
from policies.cel.kubernetes import FORMER, admission
from policies.cel.types import DYN, INT, STRING, Type, list_of, parameter, struct, type_of
from policies.kubernetes.release import RELEASES, named

PLACE = struct("Place")
ENVIRONMENT = Environment(
    functions={},
    variables={"place": PLACE, "a.b": INT},
    structs={"Place": {"name": STRING}},
    type_names={"int": INT, "list": STANDARD_TYPES["list"]},
)


@pytest.mark.parametrize(
    ("name", "type_", "constant"),
    [
        ("place", PLACE, None),
        ("a.b", INT, None),
        ("int", type_of(INT), INT),
        ("list", type_of(list_of(parameter("A"))), list_of(DYN)),
        ("Place", type_of(PLACE), NOT_A_VALUE),
    ],
)
def test_names(name: str, type_: Type, constant: Type | None) -> None:
    """A name is a variable, a type with itself as the value, or a type that can only be constructed."""
    meaning = Declared(name, type_, None if constant is None else (constant,))

    assert [ENVIRONMENT.lookup(text) for text in (name, f".{name}", f"{name}s")] == [meaning, meaning, None]


def test_libraries_are_merged() -> None:
    """Functions of one name have the overloads of all libraries in their order, the first call and cost."""
    one = Overload(id="one", parameters=(INT,), result=INT)
    two = Overload(id="two", parameters=(STRING,), result=INT)
    first = Function(name="f", overloads=(one,), cost=5)
    second = Function(name="f", overloads=(two,), call=len, cost=7)

    assert merged([Library(name="a", functions=(first,)), Library(name="b", functions=(second,))]) == {
        "f": Function(name="f", overloads=(one, two), call=len, cost=5),
    }


@pytest.mark.parametrize(
    ("options", "unknown"),
    [
        ({}, set()),
        ({"params": False}, {"params"}),
        ({"authorizer_": False}, {"authorizer", "authorizer.requestResource"}),
    ],
)
def test_variables_of_admission(options: dict[str, bool], unknown: set[str]) -> None:
    """A policy has the variables of Kubernetes, without a paramKind no params; all of a kind share one environment."""
    every = {"object", "oldObject", "params", "namespaceObject", "request", "variables"}
    every |= {"authorizer", "authorizer.requestResource"}

    assert set(admission(**options).variables) == every - unknown
    assert admission(**options) is admission(**options)


_BEFORE = dict(zip(RELEASES[1:], RELEASES, strict=False))


@pytest.mark.parametrize(
    ("dialect", "known"),
    [
        (STORED, True),
        (NEW, False),
        (Dialect(named("1.36"), stored=True), False),
        (Dialect(named("1.36")), False),
    ],
    ids=str,
)
def test_a_new_library_is_for_stored_expressions_first(dialect: Dialect, known: bool) -> None:  # noqa: FBT001
    """Functions of a library that came with a release are known to the expressions that it has stored."""
    assert (admission(dialect=dialect).function("includes") is not None) is known
    assert admission(dialect=dialect).function("isSorted") is not None


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_the_language_is_that_of_the_release(feature: Feature) -> None:
    """New and stored expressions have the language of the release, and releases before it do not."""
    assert Dialect(feature.since).has(feature)
    assert Dialect(feature.since, stored=True).has(feature)
    assert not Dialect(_BEFORE[feature.since], stored=True).has(feature)


def test_functions_are_the_former_ones_before_a_change() -> None:
    """Each overload of the table is there before its release, and no longer with it."""
    for change in FORMER:
        former = admission(dialect=Dialect(_BEFORE[change.until], stored=True)).functions
        present = admission(dialect=Dialect(change.until, stored=True)).functions
        for name, call in change.calls.items():
            assert former[name].call is call is not present[name].call
        for name, overloads in change.overloads.items():
            assert set(overloads) <= set(former[name].overloads)
            assert not set(overloads) & set(present[name].overloads)
