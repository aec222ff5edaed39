"""What a reload changed, by names."""

from typing import Any

import pytest

from webhook.configuration.configuration import changed_keys, changed_names, flattened_changes


def test_names() -> None:
    """Names come, go, and stay with another value; equal values are no difference, and what is empty is left out."""
    before, after = {"b": 1, "gone": 1, "a": 1, "same": [1]}, {"a": 2, "b": 2, "same": [1], "new": 1, "n": 1}
    found = {"objects": changed_names(before, after), "others": changed_names({"a": 1}, {"a": 2})}

    assert found["objects"] == {"added": ["n", "new"], "removed": ["gone"], "changed": ["a", "b"]}
    assert flattened_changes({**found, "none": changed_names({}, {})}) == {
        "objects_added": ["n", "new"],
        "objects_removed": ["gone"],
        "objects_changed": ["a", "b"],
        "others_changed": ["a"],
    }


def _named(**values: int) -> tuple[dict[str, Any], ...]:
    """A list of entries with names."""
    return tuple({"name": name, "v": value} for name, value in values.items())


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1}}, []),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 2}}, ["a.b", "a.c"]),
        ({"a": {"b": {}}}, {"a": {"b": {"x": "1"}}}, ["a.b.x"]),
        ({"a": {"x": 1}}, {"a": {}}, ["a.x"]),
        ({"a": ("x", "y")}, {"a": ("y", "x")}, ["a"]),
        ({"a": ()}, {"a": ("x",)}, ["a"]),
        ({"a": _named(x=1, y=1, z=1)}, {"a": _named(new=1, x=2, z=1)}, ["a[x].v", "a[y]", "a[new]"]),
        ({"a": ({"key": "k/x", "v": 1},)}, {"a": ({"key": "k/x", "v": 2},)}, ["a[k/x].v"]),
        ({"a": ({"r": 1}, {"r": 2})}, {"a": ({"r": 1}, {"r": 3}, {"r": 4})}, ["a[1].r", "a[2]"]),
        ({"a": (*_named(x=1), *_named(x=1))}, {"a": _named(x=1, y=1)}, ["a[1].name"]),
        ({"a": _named(x=1, y=1)}, {"a": _named(y=1, x=1)}, ["a"]),
        ({"a": ()}, {"a": _named(x=1)}, ["a[x]"]),
    ],
)
def test_keys(before: Any, after: Any, keys: list[str]) -> None:
    """Keys are dotted, entries of lists go by their names if each has one, and nothing that differs is left out."""
    assert changed_keys(before, after) == keys
