from __future__ import annotations

from typing import Any

import pytest

from policies.cel.cost import (
    EXPRESSION_LIMIT,
    MATCH_CONDITIONS_LIMIT,
    POLICY_LIMIT,
    matching,
    of_first,
    of_first_twice,
    of_match,
    of_tree,
    size,
    traversal,
    tree,
)
from policies.cel.errors import CelError
from policies.cel.values import NONE, Duration, Optional, Uint


class Sized:
    """A library's value with a size of its own."""

    cel_size = 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("aé\U0001f600", 3),
        ("", 0),
        (b"abc", 3),
        ([1, 2], 2),
        ({"a": 1}, 1),
        ({}, 0),
        (None, 1),
        (True, 1),
        (10**9, 1),
        (Uint(5), 1),
        (1.5, 1),
        (Duration(1), 1),
        (NONE, 1),
        (Optional("abcd"), 4),
        (Optional(Optional([1, 2, 3])), 3),
        (CelError("a long message"), 1),
        pytest.param(Sized(), 7, id="Sized()-7"),
    ],
    ids=repr,
)
def test_sizes(value: Any, expected: int) -> None:
    """Texts by characters, lists and maps by elements, optionals by their content, all else 1, failures too."""
    assert size(value) == expected


@pytest.mark.parametrize(("length", "expected"), [(0, 0), (1, 1), (10, 1), (11, 2), (100, 10), (101, 11)])
def test_passes(length: int, expected: int) -> None:
    """One pass is a tenth of the size, rounded up; two passes are rounded once."""
    text = "a" * length

    assert traversal(text) == of_first([text], None) == expected
    assert of_first_twice([text], None) == -(-length // 5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (None, 1),
        ("a" * 9, 0),
        ("a" * 10, 1),
        ("é" * 5, 1),
        (b"a" * 25, 2),
        ([], 0),
        ([1, 2, [3]], 3),
        ({"a": 1, "b" * 20: [1, 2]}, 0 + 1 + 2 + 2),
    ],
    ids=repr,
)
def test_trees(value: Any, expected: int) -> None:
    """One pass over all leaves, with texts by tenths of their bytes, rounded down."""
    assert tree(value) == of_tree([value], None) == expected


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [("", "", 0), ("", "a", 1), ("a" * 9, "abcd", 1), ("a" * 10, "abcd", 2), ("a" * 10, "abcde", 4)],
)
def test_searches(text: str, pattern: str, expected: int) -> None:
    """A search costs tenths of the text and one more, times quarters of the pattern, each rounded up."""
    assert matching(text, pattern) == of_match([text, pattern], None) == expected


def test_limits() -> None:
    """The limits are those of kube-apiserver."""
    assert (EXPRESSION_LIMIT, POLICY_LIMIT, MATCH_CONDITIONS_LIMIT) == (1_000_000, 10_000_000, 2_500_000)
