"""Access to the fields of maps whose types are right, but which may be missing or null."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from policies.schema.flaw import Flaws, Place


def items(value: Mapping[str, Any], name: str) -> list[Any]:
    """The list in a field, empty if there is none."""
    return value.get(name) or []


def maps(value: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The maps in the list in a field, with their indexes. A null stands for an empty map."""
    return ((index, item or {}) for index, item in enumerate(value.get(name) or ()))


def unique(values: Iterable[tuple[Place, Any]], flaws: Flaws) -> None:
    """Each value that was there before is a duplicate; those that are empty do not count."""
    known = set()
    for place, value in values:
        if value in known:
            flaws.duplicate(place, value)
        elif value:
            known.add(value)
