"""What a reload changed, by names."""

from typing import Any

import pytest

from webhook.configuration.configuration import changed_keys, changed_names, flattened_changes


def test_names() -> None:
    """Names come, go, and stay with another value; equal values are no difference."""
    before, after = {"b": 1, "gone": 1, "a": 1, "same": [1]}, {"a": 2, "b": 2, "same": [1], "new": 1, "n": 1}

    assert changed_names(before, after) == {"added": ["n", "new"], "removed": ["gone"], "changed": ["a", "b"]}
    assert changed_names({}, {}) == {"added": [], "removed": [], "changed": []}


def test_names_of_several_sorts() -> None:
    """What is empty is left out."""
    found = {"exceptions": changed_names({"a": 1}, {"a": 2}), "objects": changed_names({}, {})}

    assert flattened_changes(found) == {"exceptions_changed": ["a"]}


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1}}, [], id="the-same"),
        pytest.param({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 2}}, ["a.b", "a.c"], id="values"),
        pytest.param({"a": {"b": {}}}, {"a": {"b": {"x": "1"}}}, ["a.b.x"], id="key-that-came"),
        pytest.param({"a": {"x": 1}}, {"a": {}}, ["a.x"], id="key-that-went"),
        pytest.param({"a": ("x", "y")}, {"a": ("y", "x")}, ["a"], id="list-of-texts"),
        pytest.param({"a": ()}, {"a": ("x",)}, ["a"], id="list-of-texts-that-was-empty"),
        pytest.param(
            {"a": ({"name": "x", "v": 1}, {"name": "y"}, {"name": "z"})},
            {"a": ({"name": "new"}, {"name": "x", "v": 2}, {"name": "z"})},
            ["a[x].v", "a[y]", "a[new]"],
            id="list-of-what-has-names",
        ),
        pytest.param(
            {"a": ({"key": "k/x", "v": 1},)}, {"a": ({"key": "k/x", "v": 2},)}, ["a[k/x].v"], id="list-by-keys"
        ),
        pytest.param(
            {"a": ({"r": 1}, {"r": 2})}, {"a": ({"r": 1}, {"r": 3}, {"r": 4})}, ["a[1].r", "a[2]"], id="list-by-numbers"
        ),
        pytest.param(
            {"a": ({"name": "x"}, {"name": "x"})},
            {"a": ({"name": "x"}, {"name": "y"})},
            ["a[1].name"],
            id="names-that-are-there-twice",
        ),
        pytest.param({"a": ({"name": "x"}, {"name": "y"})}, {"a": ({"name": "y"}, {"name": "x"})}, ["a"], id="order"),
        pytest.param({"a": ()}, {"a": ({"name": "x"},)}, ["a[x]"], id="first-entry"),
    ],
)
def test_keys(before: Any, after: Any, keys: list[str]) -> None:
    """Keys are dotted, entries of lists go by their names if each has one, and nothing that differs is left out."""
    assert changed_keys(before, after) == keys
