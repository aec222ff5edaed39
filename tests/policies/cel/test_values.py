from __future__ import annotations

from typing import Any

import pytest

from policies.cel import types
from policies.cel.values import NONE, Duration, Optional, Timestamp, Uint, shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Uint(5), "5"),
        (1e20, "1e+20"),
        (b"ab", "[97 98]"),
        ([1, None, 1.5, "x", [True], {"b": 2, "a": None}], "[1, null, 1.5, x, [true], {b: 2, a: null}]"),
        (Duration(5_400_000_000_000), "1h30m0s"),
        (Timestamp(250_000_000), "1970-01-01T00:00:00.25Z"),
        (Optional("x"), "optional(x)"),
        (NONE, "optional.none()"),
        ([types.INT, types.LIST, types.MAP, types.NULL], "[int, list(dyn), map(dyn, dyn), null_type]"),
    ],
)
def test_shown(value: Any, expected: str) -> None:
    """Values appear in messages as Go prints them; lists and maps are of dyn while a program runs."""
    assert shown(value) == expected
