from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import declared

from policies.cel.errors import CelError
from policies.cel.library.standard.comprehensions import LIBRARY, insert, insert_all
from policies.cel.values import Uint


def test_insert() -> None:
    """An entry is added to the very map that was given, at its end."""
    mapping: dict[Any, Any] = {"b": 1}

    assert insert(mapping, "a", 2) is mapping
    assert list(mapping.items()) == [("b", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("known", "key", "shown"),
    [("a", "a", "a"), (1, 1, "1"), (1, Uint(1), "1"), (1, 1.0, "1"), (True, True, "true")],
)
def test_known_keys(known: Any, key: Any, shown: str) -> None:
    """A key that is there already, as the same number of another type too, is a failure and changes nothing."""
    mapping = {known: 0}
    with pytest.raises(CelError, match=f"^insert failed: key {shown} already exists$"):
        insert(mapping, key, 1)

    assert mapping == {known: 0}


def test_insert_all() -> None:
    """All entries of a map are added; the map they come from stays."""
    entries = {"a": 1, "b": 2}

    assert insert_all({"c": 3}, entries) == {"c": 3, "a": 1, "b": 2}
    assert entries == {"a": 1, "b": 2}
    with pytest.raises(CelError, match="key a already exists"):
        insert_all({"a": 0}, entries)


def test_declares_the_functions_of_the_reference() -> None:
    """One function that only macros can name, with an overload for an entry and one for a map."""
    assert declared(LIBRARY) == {
        "cel.@mapInsert": [
            "@mapInsert_map_key_value: (map(K, V), K, V) -> map(K, V) stepwise",
            "@mapInsert_map_map: (map(K, V), map(K, V)) -> map(K, V)",
        ]
    }
