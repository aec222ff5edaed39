from __future__ import annotations

import pytest
from support.cel.overloads import Failed, declared, outcome, price

from policies.cel.library.standard.text import LIBRARY


def test_declares_the_functions_of_the_reference() -> None:
    """The functions have the overloads of the reference, and look at the types of their arguments themselves."""
    assert declared(LIBRARY) == {
        "contains": ["contains_string: string.(string) -> bool"],
        "endsWith": ["ends_with_string: string.(string) -> bool"],
        "startsWith": ["starts_with_string: string.(string) -> bool"],
    }
    assert not any(function.guarded for function in LIBRARY.functions)


@pytest.mark.parametrize(
    ("id", "text", "part", "expected"),
    [
        ("contains_string", "abc", "b", True),
        ("contains_string", "abc", "", True),
        ("contains_string", "abc", "cb", False),
        ("starts_with_string", "abc", "ab", True),
        ("starts_with_string", "abc", "b", False),
        ("ends_with_string", "abc", "bc", True),
        ("ends_with_string", "abc", "b", False),
        ("contains_string", 1, "b", Failed("no such overload")),
        ("contains_string", "abc", 1, Failed("no such overload")),
        ("starts_with_string", b"abc", "b", Failed("no such overload")),
        ("ends_with_string", "abc", None, Failed("no such overload")),
    ],
)
def test_searches(id: str, text: object, part: object, expected: object) -> None:
    """Texts are searched as they are; a value that is no text fails without naming its type."""
    assert outcome(LIBRARY, id, text, part) == expected


@pytest.mark.parametrize(
    ("id", "text", "part", "expected"),
    [
        ("contains_string", "a" * 28, "b" * 18, 6),
        ("contains_string", "abc", "", 0),
        ("contains_string", 1, "b", 1),
        ("starts_with_string", "a" * 28, "b" * 18, 2),
        ("ends_with_string", "", "b", 1),
    ],
)
def test_costs(id: str, text: object, part: object, expected: int) -> None:
    """A search costs a tenth of the part, times a tenth of the text where the part may be anywhere."""
    assert price(LIBRARY, id, text, part) == expected
