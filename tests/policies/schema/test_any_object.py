"""Whatever stands in an object, it is judged."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from cluster import fieldrules
from hypothesis import given
from hypothesis import strategies as st
from support.brokenmanifests import cases, definitions
from support.builders import Json

from policies.schema.schemas import Schemas
from webhook.files import yamlfile

_OBJECTS = [
    *fieldrules.accepted(),
    *definitions(),
    *(yamlfile.load("x", case.text)[0].value for case in cases() if not case.name.startswith("a duplicate key")),
]
_VALUES: list[Any] = [
    *(None, 0, -1, 1.5, True, 10**30, float("inf"), "", "a", "a b", "\ud800"),
    *([], {}, [None], [{}], [[]], ["a", "a"], {"a": None}, {"a": 5}),
]
_SCHEMAS = Schemas(definitions=definitions())
_TRAINING: Json = {
    "apiVersion": "schemas.example.test/v1",
    "kind": "Training",
    "metadata": {"name": "a"},
    "spec": {"image": "abc", "tags": ["a"], "ports": [{}], "one": {}},
}


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each map and list in a value, with a key or index."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(entries):
        yield value, key
        yield from _holders(item)


@given(st.sampled_from(_OBJECTS), st.lists(st.tuples(st.integers(0), st.sampled_from(_VALUES)), min_size=1, max_size=3))
def test_any_value_may_stand_anywhere(original: Json, changes: list[tuple[int, Any]]) -> None:
    """An object with strange values is judged without an error, and a strange definition judges its resources."""
    obj = copy.deepcopy(original)
    for number, value in changes:
        places = list(_holders(obj["spec"])) if isinstance(obj.get("spec"), dict) else []
        if places:
            holder, key = places[number % len(places)]
            holder[key] = copy.deepcopy(value)

    assert all(flaw.text for flaw in _SCHEMAS.flaws(obj))
    if obj["kind"] == "CustomResourceDefinition":
        assert all(flaw.text for flaw in Schemas(definitions=[obj]).flaws(_TRAINING))
