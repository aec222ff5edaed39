from __future__ import annotations

from typing import Any

import pytest

from policies.cel import types
from policies.cel.values import NONE, Duration, Optional, Timestamp, Uint, shown, type_name


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"),
        (Uint(5), "5"),
        (1.5, "1.5"),
        (1e20, "1e+20"),
        (True, "true"),
        (None, "null"),
        ("a", "a"),
        (b"ab", "[97 98]"),
        ([1, None, 1.5, "x", [True], {"b": 2, "a": None}], "[1, null, 1.5, x, [true], {b: 2, a: null}]"),
        ({"k": None}, "{k: null}"),
        (Duration(5_400_000_000_000), "1h30m0s"),
        (Timestamp(250_000_000), "1970-01-01T00:00:00.25Z"),
        (Optional("x"), "optional(x)"),
        (NONE, "optional.none()"),
        (types.INT, "int"),
        (types.LIST, "list(dyn)"),
    ],
)
def test_shown(value: Any, expected: str) -> None:
    """Values appear in messages as Go prints them."""
    assert shown(value) == expected


def test_type_names() -> None:
    """Lists and maps are of dyn while a program runs, other types have their name alone."""
    described = (types.LIST, types.MAP, types.OPTIONAL, types.NULL, types.DURATION)
    expected = ["list(dyn)", "map(dyn, dyn)", "optional_type", "null_type", "google.protobuf.Duration"]
    assert list(map(type_name, described)) == expected
