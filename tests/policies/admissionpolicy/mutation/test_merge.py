"""The structured merge: what an apply configuration sets, what it leaves, and what it may not say."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from policies.admissionpolicy import schema
from policies.admissionpolicy.mutation.conversion import Foreign
from policies.admissionpolicy.mutation.merge import MergeError, atomics, check, merge
from policies.admissionpolicy.schema import Definitions, SchemaNode
from policies.cel.values import ABSENT, Uint
from policies.engine.request import GroupVersionKind

_TEXT = {"type": "string"}
_KEYED = {"type": "array", "x-kubernetes-list-type": "map"}
_ITEM = {
    "type": "object",
    "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "note": _TEXT,
        "args": {"type": "array", "items": _TEXT},
    },
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "text": _TEXT,
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "either": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "inner": {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}},
        "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _TEXT, "b": _TEXT}},
        "list": {"type": "array", "items": _TEXT},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"x-any": True}},
        "ports": {**_KEYED, "x-kubernetes-list-map-keys": ["port", "protocol"], "items": _ITEM},
        "named": {
            **_KEYED,
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": _TEXT, "value": _TEXT}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "any": {},
    },
}
_NODE: SchemaNode = Definitions({}).inline(_SCHEMA)


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        pytest.param({"text": "a", "flag": True}, {"text": "b"}, {"text": "b", "flag": True}, id="a-scalar"),
        pytest.param({}, {"text": "b"}, {"text": "b"}, id="a-new-scalar"),
        pytest.param({"text": "a"}, {"text": None}, {"text": None}, id="null-for-a-scalar"),
        pytest.param(
            {"labels": {"a": "1", "b": "2"}},
            {"labels": {"b": "3", "c": "4"}},
            {"labels": {"a": "1", "b": "3", "c": "4"}},
            id="a-map",
        ),
        pytest.param({"labels": {"a": "1"}}, {"labels": {}}, {"labels": {"a": "1"}}, id="an-empty-map"),
        pytest.param({"labels": {"a": "1"}}, {"labels": None}, {"labels": {"a": "1"}}, id="null-for-a-map"),
        pytest.param({"labels": {}}, {"labels": None}, {"labels": None}, id="null-for-an-empty-map"),
        pytest.param({"labels": None}, {"labels": {"a": "1"}}, {"labels": {"a": "1"}}, id="a-map-for-null"),
        pytest.param({"labels": "odd"}, {"labels": {"a": "1"}}, {"labels": {"a": "1"}}, id="a-map-for-another-type"),
        pytest.param({"inner": {"a": "1"}}, {"inner": {"b": "2"}}, {"inner": {"a": "1", "b": "2"}}, id="a-struct"),
        pytest.param({"fixed": {"a": "1"}}, {"fixed": {"b": "2"}}, {"fixed": {"b": "2"}}, id="an-atomic-map"),
        pytest.param({"list": ["a", "b"]}, {"list": ["c"]}, {"list": ["c"]}, id="an-atomic-list"),
        pytest.param({"set": ["a", "b"]}, {"set": ["c", "b"]}, {"set": ["a", "c", "b"]}, id="a-set"),
        pytest.param({"set": [1, True]}, {"set": [True, 1.0]}, {"set": [True, 1.0]}, id="a-set-of-numbers"),
        pytest.param({"set": ["a", "a"]}, {"set": ["b", "a"]}, {"set": ["b", "a"]}, id="a-set-with-duplicates"),
        pytest.param({"set": ["a", "a"]}, {"set": ["b"]}, {"set": ["a", "a", "b"]}, id="duplicates-that-stay"),
        pytest.param({"set": ["a"]}, {"set": []}, {"set": ["a"]}, id="an-empty-set"),
        pytest.param({"set": ["a"]}, {"set": None}, {"set": ["a"]}, id="null-for-a-set"),
        pytest.param(
            {"ports": [{"port": 1, "protocol": "TCP", "note": "a"}, {"port": 1, "protocol": "UDP"}]},
            {"ports": [{"port": 1, "note": "b"}, {"port": 2}]},
            {
                "ports": [
                    {"port": 1, "protocol": "TCP", "note": "b"},
                    {"port": 1, "protocol": "UDP"},
                    {"port": 2},
                ]
            },
            id="items-by-two-keys-one-defaulted",
        ),
        pytest.param(
            {"named": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}, {"name": "b"}]},
            {"named": [{"name": "a", "value": "3"}]},
            {"named": [{"name": "a", "value": "3"}, {"name": "b"}]},
            id="items-with-the-same-key",
        ),
        pytest.param(
            {"free": {"map": {"a": 1}, "list": [1, 2], "text": "a"}},
            {"free": {"map": {"b": 2}, "list": [3], "text": {"now": "a map"}}},
            {"free": {"map": {"a": 1, "b": 2}, "list": [3], "text": {"now": "a map"}}},
            id="without-a-schema",
        ),
        pytest.param({"any": {"a": 1}}, {"any": "text"}, {"any": "text"}, id="a-scalar-for-a-map"),
        pytest.param({"any": [1]}, {"any": None}, {"any": None}, id="null-for-anything"),
        pytest.param({"later": 1}, {"text": "a"}, {"later": 1, "text": "a"}, id="a-field-that-only-the-object-has"),
        pytest.param(ABSENT, {"text": "a"}, {"text": "a"}, id="nothing-there"),
        pytest.param({"text": "a"}, ABSENT, {"text": "a"}, id="nothing-applied"),
    ],
)
def test_merges(live: Any, applied: Any, result: Any) -> None:
    """What is applied is set by the rules of its place; the rest stays, and neither input is changed."""
    before = deepcopy((live, applied))

    merged = merge(live, applied, _NODE)

    assert merged == result
    assert [type(item) for item in merged.get("set") or []] == [type(item) for item in result.get("set") or []]
    if live is not ABSENT and applied is not ABSENT:
        assert (live, applied) == before


def test_what_is_not_reached_is_shared() -> None:
    """Only the containers along the changed paths are new; where nothing changes it is the object itself."""
    live: dict[str, Any] = {"labels": {"a": "1"}, "inner": {"a": "1"}, "named": [{"name": "a"}, {"name": "b"}]}

    merged = merge(live, {"labels": {"b": "2"}, "named": [{"name": "b", "value": "3"}]}, _NODE)

    assert merged["inner"] is live["inner"]
    assert merged["named"][0] is live["named"][0]
    assert merge(live, {"labels": {}, "named": [{"name": "a"}]}, _NODE) is live


_UINT = Foreign(Uint(3))
_OMITS = (
    'associative list with keys has an element that omits all key fields ["name"] '
    "(and doesn't have default values for any key fields)"
)


@pytest.mark.parametrize(
    ("applied", "text"),
    [
        ({"nothing": 1}, ".nothing: field not declared in schema"),
        ({"inner": {"c": "1"}}, ".inner.c: field not declared in schema"),
        ({"named": [{"name": "a", "c": 1}]}, '.named[name="a"].c: field not declared in schema'),
        ({"ports": [{"port": 1, "x": 1}]}, '.ports[port=1,protocol="TCP"].x: field not declared in schema'),
        ({"text": 3}, ".text: expected string, got 3"),
        ({"text": ["a"]}, '.text: expected string, got ["a"]'),
        ({"number": "3"}, '.number: expected numeric (int or float), got "3"'),
        ({"number": True}, ".number: expected numeric (int or float), got true"),
        ({"number": _UINT}, '.number: expected numeric (int or float), got "<uint>"'),
        ({"flag": 1.5}, ".flag: expected boolean, got 1.5"),
        ({"either": {"a": [None]}}, '.either: expected any scalar, got {"a": [null]}'),
        ({"labels": "a"}, '.labels: expected map, got "a"'),
        ({"list": True}, ".list: expected list, got true"),
        ({"list": [1]}, ".list[0]: expected string, got 1"),
        ({"any": _UINT}, '.any: expected map, got "<uint>"'),
        ({"named": [{"value": "a"}]}, f".named: element 0: {_OMITS}"),
        ({"named": [None]}, ".named: element 0: associative list with keys may not have a null element"),
        ({"named": ["a"]}, ".named: element 0: associative list with keys may not have non-map elements"),
        ({"named": [{"name": "a"}] * 2}, '.named: duplicate entries for key [name="a"]'),
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        ({"set": [None]}, ".set: element 0: associative list without keys has an element that's an explicit null"),
        ({"set": [{}]}, ".set: element 0: associative list without keys has an element that's a map type"),
        ({"set": [[]]}, ".set: element 0: not supported: associative list with lists as elements"),
        (
            {"text": 1, "flag": 1},
            ("errors:\n  .text: expected string, got 1\n  .flag: expected boolean, got 1"),
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else repr(value),
)
def test_refused_configurations(applied: Any, text: str) -> None:
    """What the schema does not allow is refused in the API server's words, all of it at once."""
    with pytest.raises(MergeError) as caught:
        check(applied, _NODE)

    assert str(caught.value) == text


def test_allowed_configuration() -> None:
    """Null is allowed anywhere but in a list, and a scalar of any kind where the schema leaves it open."""
    check({"text": None, "labels": None, "list": None, "either": 3, "set": [True, 1.5, "a"], "any": {"a": [1]}}, _NODE)


@pytest.mark.parametrize(
    ("applied", "found"),
    [
        ({"labels": {"a": "b"}, "named": [{"name": "a"}], "set": ["a"]}, []),
        ({"list": []}, [".list"]),
        ({"fixed": {"a": "1"}}, [".fixed"]),
        ({"ports": [{"port": 1, "args": ["a"]}]}, [".ports[0].args"]),
        ({"list": None, "fixed": None}, []),
        ({"free": {"list": [1]}}, []),  # as the API server: it does not look into what has no fields
        ({"any": [1]}, [".any"]),
        ({"list": ["a"], "fixed": {}}, [".list", ".fixed"]),
    ],
    ids=repr,
)
def test_atomics(applied: Any, found: list[str]) -> None:
    """Lists and maps that would be replaced as a whole are found, whatever is in them."""
    assert list(atomics(applied, _NODE)) == found


def test_live_item_without_a_key() -> None:
    """A list whose items cannot be told apart cannot be merged into."""
    with pytest.raises(MergeError) as caught:
        merge({"inner": {}, "named": [{"value": "x"}]}, {"named": [{"name": "a"}]}, _NODE)

    assert str(caught.value) == f".named: element 0: {_OMITS}"


def test_problem_deep_in_a_merge_names_the_place() -> None:
    """An error in an item of a list says which item it is."""
    kind = GroupVersionKind("", "v1", "Pod")
    pod = schema.built_in(kind)
    assert pod is not None
    live = {"spec": {"containers": [{"name": "a", "env": ["odd"]}]}}
    applied = {"spec": {"containers": [{"name": "a", "env": [{"name": "X"}]}]}}

    with pytest.raises(MergeError) as caught:
        merge(live, applied, pod.root)

    assert str(caught.value) == (
        '.spec.containers[name="a"].env: element 0: associative list with keys may not have non-map elements'
    )
