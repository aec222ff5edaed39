from __future__ import annotations

import pytest

from policies.cel.checking.unification import Unifier, equivalent, more_general
from policies.cel.types import (
    BOOL,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    opaque,
    optional_of,
    parameter,
    struct,
    type_of,
)

A, B = parameter("A"), parameter("B")


@pytest.mark.parametrize(
    ("given", "expected", "fits"),
    [
        (INT, INT, True),
        (INT, UINT, False),
        (INT, DYN, True),
        (DYN, INT, True),
        (ERROR, INT, True),
        (NULL, NULL, True),
        (NULL, INT, False),
        (NULL, STRING, False),
        (NULL, DURATION, True),
        (NULL, TIMESTAMP, True),
        (NULL, struct("kubernetes.UserInfo"), True),
        (NULL, opaque("net.IP"), True),
        (NULL, list_of(INT), False),
        (DURATION, NULL, True),
        (INT, NULL, False),
        (struct("A"), struct("B"), False),
        (struct("A"), struct("A"), True),
        (list_of(INT), list_of(INT), True),
        (list_of(INT), list_of(STRING), False),
        (list_of(INT), list_of(DYN), True),
        (list_of(DYN), list_of(INT), True),
        (list_of(INT), map_of(INT, INT), False),
        (map_of(STRING, INT), map_of(STRING, BOOL), False),
        (optional_of(INT), optional_of(INT), True),
        (optional_of(INT), opaque("net.IP"), False),
        (optional_of(NULL), optional_of(optional_of(INT)), True),
        (type_of(INT), type_of(STRING), True),
        (type_of(INT), INT, False),
    ],
    ids=str,
)
def test_types_without_variables(given: Type, expected: Type, fits: bool) -> None:  # noqa: FBT001
    """Types fit their equals and dyn; null fits what may be null; any type of types fits any other."""
    assert Unifier().assignable((given,), (expected,)) is fits


def test_a_variable_keeps_its_meaning() -> None:
    """Once a variable stands for a type, others do not fit it any more."""
    unifier = Unifier()

    assert unifier.assignable((INT,), (A,)) is True
    assert unifier.assignable((STRING,), (A,)) is False
    assert unifier.resolve(list_of(A)) == list_of(INT)


def test_a_variable_becomes_more_general() -> None:
    """A variable that met int and then dyn is dyn."""
    unifier = Unifier()

    assert unifier.assignable((INT, DYN), (A, A)) is True
    assert unifier.resolve(A) == DYN


def test_what_failed_leaves_no_trace() -> None:
    """When one of several arguments does not fit, nothing is learnt from the others."""
    unifier = Unifier()

    assert unifier.assignable((INT, STRING), (A, BOOL)) is False
    assert unifier.resolve(A) == A
    assert unifier.assignable((STRING,), (A,)) is True


def test_different_counts() -> None:
    """One argument does not fit two parameters."""
    assert Unifier().assignable((INT,), (A, A)) is False


@pytest.mark.parametrize("around", [list_of, optional_of, type_of])
def test_no_type_contains_itself(around: object) -> None:
    """A variable cannot stand for a type that is made of it, directly or by way of another variable."""
    assert callable(around)
    unifier = Unifier()

    assert unifier.assignable((around(A),), (A,)) is False
    assert unifier.assignable((B,), (A,)) is True
    assert unifier.assignable((around(B),), (A,)) is False


def test_variables_on_both_sides() -> None:
    """The variable of an empty list is settled by the type that it meets, whichever side it is on."""
    unifier = Unifier()
    element = unifier.fresh()

    assert unifier.assignable((list_of(element),), (list_of(INT),)) is True
    assert unifier.resolve(list_of(element)) == list_of(INT)


def test_what_stays_unknown() -> None:
    """A variable that nothing is known of stays one, or is dyn on demand."""
    unifier = Unifier()

    assert unifier.resolve(map_of(A, INT)) == map_of(A, INT)
    assert unifier.resolve(map_of(A, INT), unknown_is_dyn=True) == map_of(DYN, INT)


def test_instances() -> None:
    """Each use of a signature gets variables of its own, the same one for the same name."""
    unifier = Unifier()
    signature = (list_of(A), A, B, INT)

    first, second = unifier.instance(signature), unifier.instance(signature)

    names = [parameter(f"_var{number}") for number in range(4)]
    assert first == (list_of(names[0]), names[0], names[1], INT)
    assert second == (list_of(names[2]), names[2], names[3], INT)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (DYN, INT, DYN),
        (INT, DYN, DYN),
        (A, INT, A),
        (list_of(INT), list_of(DYN), list_of(DYN)),
        (list_of(DYN), list_of(INT), list_of(DYN)),
        (type_of(INT), type_of(STRING), type_of(INT)),
        (NULL, DURATION, DURATION),
        (map_of(STRING, INT), map_of(STRING, INT), map_of(STRING, INT)),
    ],
    ids=str,
)
def test_more_general(left: Type, right: Type, expected: Type) -> None:
    """Dyn and variables are more general than anything, in parameters too; of unrelated types it is the second."""
    assert more_general(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (INT, INT, True),
        (INT, DYN, False),
        (A, B, True),
        (list_of(A), list_of(B), True),
        (list_of(INT), list_of(STRING), False),
        (struct("A"), struct("B"), False),
        (opaque("x"), optional_of(INT), False),
    ],
    ids=str,
)
def test_equivalent(left: Type, right: Type, expected: bool) -> None:  # noqa: FBT001
    """Types are equivalent when they differ in the names of variables at most."""
    assert equivalent(left, right) is expected
