"""The differences after a reload, as names for the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

# The keys that identify the entries of a list.
_NAMES = ("name", "key")


def of_names(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, list[str]]:
    """The names that were added, removed and changed, each sorted."""
    return {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(name for name in after.keys() & before.keys() if after[name] != before[name]),
    }


def flattened(changes: Mapping[str, Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """The differences of several sorts, with keys such as `exceptions_added`, without empty ones."""
    return {f"{sort}_{how}": names for sort, by_change in changes.items() for how, names in by_change.items() if names}


def of_keys(before: Any, after: Any, at: str = "") -> list[str]:
    """The keys whose values differ in two trees of maps, such as `labels.action` and `topology.topologies[mine]`.

    Entries of a list of maps are identified by names or, without names, by numbers. Any other list is one value.
    """
    if before == after:
        return []
    pairs: Iterator[tuple[str, Any, Any]]
    if isinstance(before, dict) and isinstance(after, dict):
        keys = (*before, *(key for key in after if key not in before))
        pairs = ((f"{at}.{key}" if at else key, before.get(key), after.get(key)) for key in keys)
    elif _is_list_of_maps(before) and _is_list_of_maps(after):
        pairs = ((f"{at}[{name}]", old, new) for name, old, new in _entries(before, after))
    else:
        return [at]
    return [key for where, old, new in pairs for key in of_keys(old, new, where)] or [
        at
    ]  # nothing but their order differs


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, dict) for item in value)


def _entries(before: Sequence[Any], after: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """The corresponding entries of two lists; None for a missing one."""
    ours, theirs = _named(before), _named(after)
    if len(ours) < len(before) or len(theirs) < len(after):
        for number, (old, new) in enumerate(zip_longest(before, after)):
            yield str(number), old, new
    else:
        for name in {**ours, **theirs}:
            yield name, ours.get(name), theirs.get(name)


def _named(entries: Sequence[Any]) -> dict[str, Any]:
    """The entries that have names, by name."""
    return {str(entry[key]): entry for entry in entries for key in _NAMES if key in entry}
