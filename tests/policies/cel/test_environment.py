from __future__ import annotations

import pytest

from policies.cel.environment import (
    NOT_A_VALUE,
    STANDARD_TYPES,
    Declared,
    Environment,
    Function,
    Library,
    Overload,
    merged,
)
from policies.cel.kubernetes import admission
from policies.cel.types import DYN, INT, STRING, Type, list_of, parameter, struct, type_of

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
