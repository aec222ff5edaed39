from __future__ import annotations

import pytest

from policies.cel.environment import NOT_A_VALUE, STANDARD_TYPES, Declared, Environment, merged
from policies.cel.function import Function, Library, Overload
from policies.cel.kubernetes import REQUEST, VARIABLES, admission, variable_type
from policies.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    optional_of,
    parameter,
    struct,
    type_of,
)

PLACE = struct("Place")
ENVIRONMENT = Environment(
    functions={},
    variables={"place": PLACE, "a.b": INT},
    structs={"Place": {"name": STRING}},
    type_names={"int": INT, "list": STANDARD_TYPES["list"]},
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("place", Declared("place", PLACE)),
        (".place", Declared("place", PLACE)),
        ("a.b", Declared("a.b", INT)),
        ("int", Declared("int", type_of(INT), (INT,))),
        ("list", Declared("list", type_of(list_of(parameter("A"))), (list_of(DYN),))),
        ("Place", Declared("Place", type_of(PLACE), (NOT_A_VALUE,))),
        ("a", None),
        ("Object", None),
    ],
)
def test_names(name: str, expected: Declared | None) -> None:
    """A name is a variable, a type with itself as the value, or a type that can only be constructed."""
    assert ENVIRONMENT.lookup(name) == expected


def test_fields() -> None:
    """Types have the fields that are declared; what is not declared has none."""
    assert [ENVIRONMENT.field("Place", name) for name in ("name", "nme")] == [STRING, None]
    assert ENVIRONMENT.field("Other", "name") is None
    assert [list(ENVIRONMENT.fields(name)) for name in ("Place", "Other")] == [["name"], []]
    assert [ENVIRONMENT.is_struct(name) for name in ("Place", "Other", "Object")] == [True, False, False]


def test_other_fields() -> None:
    """With other fields there is a new environment, and the old one is as before."""
    more = ENVIRONMENT.with_fields("Place", {"size": INT})

    assert [more.field("Place", name) for name in ("size", "name")] == [INT, None]
    assert ENVIRONMENT.field("Place", "name") == STRING


def test_libraries_are_merged() -> None:
    """Functions of one name have the overloads of all libraries in their order, the first call and cost."""
    one = Overload(id="one", parameters=(INT,), result=INT)
    two = Overload(id="two", parameters=(STRING,), result=INT)
    first = Function(name="f", overloads=(one,), cost=5)
    second = Function(name="f", overloads=(two,), call=len, cost=7)
    found = merged([Library(name="a", functions=(first,)), Library(name="b", functions=(second,))])

    assert found == {
        "f": Function(name="f", overloads=(one, two), call=len, cost=5),
    }


def test_namespaced_functions() -> None:
    """Functions are found by their whole name, a leading point aside."""
    environment = admission()

    assert [function and function.name for function in map(environment.function, ("optional.of", ".size", "of"))] == [
        "optional.of",
        "size",
        None,
    ]


@pytest.mark.parametrize(
    ("options", "unknown"),
    [
        ({}, set()),
        ({"params": False}, {"params"}),
        ({"authorizer_": False}, {"authorizer", "authorizer.requestResource"}),
    ],
)
def test_variables_of_admission(options: dict[str, bool], unknown: set[str]) -> None:
    """A policy has the variables of Kubernetes; without a paramKind no params."""
    every = {"object", "oldObject", "params", "namespaceObject", "request", "variables"}
    every |= {"authorizer", "authorizer.requestResource"}

    assert set(admission(**options).variables) == every - unknown


def test_types_of_admission() -> None:
    """`request` has fields, `object` is dyn, `variables` have none until they are declared."""
    environment = admission()

    assert (environment.variables["object"], environment.variables["request"]) == (DYN, REQUEST)
    assert list(environment.fields(VARIABLES.name)) == []
    assert environment.field("kubernetes.NamespaceMetadata", "creationTimestamp") == TIMESTAMP
    assert environment.field(REQUEST.name, "object") is None


def test_environments_are_made_once() -> None:
    """All policies of a kind share one environment."""
    assert admission(params=False) is admission(params=False)
    assert admission(params=False) is not admission()


def test_patch_types() -> None:
    """Where patches are written, Object has any field and JSONPatch its own; a wrong one is an error type."""
    patches = admission(patch_types=True)

    assert [patches.is_struct(name) for name in ("Object", "Object.spec.x", "JSONPatch", "Objects")] == [
        True,
        True,
        True,
        False,
    ]
    assert [patches.field("Object.spec", "any"), patches.field("JSONPatch", "op")] == [DYN, STRING]
    assert patches.field("JSONPatch", "any") == ERROR
    assert list(patches.fields("JSONPatch")) == ["op", "path", "from", "value"]
    assert patches.function("jsonpatch.escapeKey") is not None
    assert admission().function("jsonpatch.escapeKey") is None


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (BOOL, BOOL),
        (NULL, NULL),
        (TIMESTAMP, TIMESTAMP),
        (list_of(STRING), list_of(STRING)),
        (map_of(STRING, PLACE), map_of(STRING, DYN)),
        (PLACE, DYN),
        (optional_of(INT), DYN),
        (type_of(INT), DYN),
        (DYN, DYN),
    ],
    ids=str,
)
def test_types_of_variables(type_: Type, expected: Type) -> None:
    """`variables.x` keeps plain types, also in lists and maps; all others are dyn."""
    assert variable_type(type_) == expected
