"""`jsonpatch.escapeKey`. Expected values are those of the Go reference."""

from __future__ import annotations

import pytest
from support.cel.cellibrary import answer, charged

from policies.cel.library.kubernetes.jsonpatch import LIBRARY


@pytest.mark.parametrize(
    ("key", "expected"), [("a/b", "a~1b"), ("a~b", "a~0b"), ("~1/", "~01~1"), ("", ""), ("é", "é")]
)
def test_escape_key(key: str, expected: str) -> None:
    """Slashes and tildes are escaped, each once."""
    assert answer(LIBRARY, "jsonpatch.escapeKey", key) == expected


def test_cost() -> None:
    """It costs a tenth of the length."""
    assert charged(LIBRARY, "jsonpatch.escapeKey", "x" * 11) == 2
