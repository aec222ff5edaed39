"""JSON patches: they apply to the object as it was sent, whatever is missing in it."""

from copy import deepcopy
from typing import Any

import pytest
from support.builders import Json

from policies.engine.patch import PatchError, adds_in_place, append, apply, put, remove
from policies.engine.rule import PatchOperation
from policies.objects.fieldpath import Location

_KEYS = ("spec", "template", "list")


def _add(path: str, value: Any) -> PatchOperation:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.parametrize(
    ("obj", "operations", "result"),
    [
        pytest.param(
            {},
            [_add("/spec", {"template": {"list": [1, 2]}})],
            {"spec": {"template": {"list": [1, 2]}}},
            id="no-parents",
        ),
        pytest.param(
            {"spec": None, "a": 1},
            [_add("/spec", {"template": {"list": [1, 2]}})],
            {"spec": {"template": {"list": [1, 2]}}, "a": 1},
            id="null-parent",
        ),
        pytest.param(
            {"spec": {"a": 1}},
            [_add("/spec/template", {"list": [1, 2]})],
            {"spec": {"a": 1, "template": {"list": [1, 2]}}},
            id="one-parent",
        ),
        pytest.param(
            {"spec": {"template": {}}},
            [_add("/spec/template/list", [1, 2])],
            {"spec": {"template": {"list": [1, 2]}}},
            id="no-list",
        ),
        pytest.param(
            {"spec": {"template": {"list": None}}},
            [_add("/spec/template/list", [1, 2])],
            {"spec": {"template": {"list": [1, 2]}}},
            id="null-list",
        ),
        pytest.param(
            {"spec": {"template": {"list": []}}},
            [_add("/spec/template/list/-", 1), _add("/spec/template/list/-", 2)],
            {"spec": {"template": {"list": [1, 2]}}},
            id="empty-list",
        ),
        pytest.param(
            {"spec": {"template": {"list": [0]}}},
            [_add("/spec/template/list/-", 1), _add("/spec/template/list/-", 2)],
            {"spec": {"template": {"list": [0, 1, 2]}}},
            id="list",
        ),
    ],
)
def test_appending(obj: Json, operations: list[PatchOperation], result: Json) -> None:
    """Items go to the end of a list, in order; what is missing or null on the way is made with one operation."""
    sent = deepcopy(obj)

    assert list(append(obj, _KEYS, [1, 2])) == operations
    assert apply(obj, operations) == result
    assert obj == sent


def test_appending_nothing() -> None:
    """Without items there is no operation, whatever the object looks like."""
    assert (append({}, _KEYS, []), append({"spec": "x"}, _KEYS, [])) == ((), ())


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        pytest.param({"spec": "x"}, "spec is not a map", id="text"),
        pytest.param({"spec": []}, "spec is not a map", id="list"),
        pytest.param({"spec": {"template": 0}}, "spec.template is not a map", id="number"),
        pytest.param({"spec": {"template": {"list": {}}}}, "spec.template.list is not a list", id="map-for-a-list"),
        pytest.param({"spec": {"template": {"list": "x"}}}, "spec.template.list is not a list", id="text-for-a-list"),
    ],
)
def test_places_that_cannot_be_appended_to(obj: Json, message: str) -> None:
    """A parent that is not a map, or a place that is not a list, is named rather than overwritten."""
    with pytest.raises(PatchError) as raised:
        append(obj, _KEYS, [1])

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("obj", "operation"),
    [
        pytest.param({}, _add("/spec/a", 1), id="missing-parent"),
        pytest.param({"spec": None}, _add("/spec/a", 1), id="null-parent"),
        pytest.param({"spec": "x"}, _add("/spec/a", 1), id="text-parent"),
        pytest.param({"spec": None}, _add("/spec/-", 1), id="end-of-null"),
        pytest.param({"list": []}, _add("/list/7", 1), id="past-the-end"),
        pytest.param({"list": []}, _add("/list/a", 1), id="no-index"),
        pytest.param({}, {"op": "remove", "path": "/a"}, id="remove-what-is-not-there"),
        pytest.param({"a": 1}, {"op": "test", "path": "/a", "value": 2}, id="failed-test"),
        pytest.param({}, _add("spec", 1), id="no-pointer"),
        pytest.param({}, {"op": "add", "path": "/spec"}, id="no-value"),
        pytest.param({}, {"op": "grow", "path": "/spec"}, id="unknown-operation"),
        pytest.param({}, {"path": "/spec"}, id="no-operation"),
    ],
)
def test_patches_that_do_not_apply(obj: Any, operation: PatchOperation) -> None:
    """Whatever is wrong with a patch is one error, and the object stays as it was."""
    sent = deepcopy(obj)

    with pytest.raises(PatchError, match=r"^the patch does not apply: ."):
        apply(obj, [operation])

    assert obj == sent


@pytest.mark.parametrize(
    ("obj", "location", "operation", "result"),
    [
        pytest.param({}, ("a",), _add("/a", 1), {"a": 1}, id="new-key"),
        pytest.param({"a": [2]}, ("a",), _add("/a", 1), {"a": 1}, id="in-its-place"),
        pytest.param({"a": {}}, ("a", "b"), _add("/a/b", 1), {"a": {"b": 1}}, id="deeper"),
        pytest.param({}, ("a", "b", "c"), _add("/a", {"b": {"c": 1}}), {"a": {"b": {"c": 1}}}, id="parents"),
        pytest.param(
            {"a": {"b": None, "x": 0}},
            ("a", "b", "c"),
            _add("/a/b", {"c": 1}),
            {"a": {"b": {"c": 1}, "x": 0}},
            id="null-parent",
        ),
        pytest.param(
            {"a": [{}, {"b": 0}]}, ("a", 1, "c"), _add("/a/1/c", 1), {"a": [{}, {"b": 0, "c": 1}]}, id="in-an-item"
        ),
        pytest.param(
            {"a": [{}]}, ("a", 0, "b", "c"), _add("/a/0/b", {"c": 1}), {"a": [{"b": {"c": 1}}]}, id="parents-in-an-item"
        ),
        pytest.param(
            {"metadata": {}},
            ("metadata", "annotations", "a.b/c~d"),
            _add("/metadata/annotations", {"a.b/c~d": 1}),
            {"metadata": {"annotations": {"a.b/c~d": 1}}},
            id="key-in-a-new-map",
        ),
        pytest.param({"a": {}}, ("a", "b/c~d"), _add("/a/b~1c~0d", 1), {"a": {"b/c~d": 1}}, id="escaped-key"),
    ],
)
def test_putting(obj: Json, location: Location, operation: PatchOperation, result: Json) -> None:
    """A value stands at its place afterwards, whatever stood there; what is missing or null on the way is made."""
    sent = deepcopy(obj)

    assert put(obj, location, 1) == (operation,)
    assert apply(obj, [operation]) == result
    assert obj == sent


@pytest.mark.parametrize(
    ("obj", "location", "message"),
    [
        pytest.param({"a": "x"}, ("a", "b"), "a is not a map", id="text"),
        pytest.param({"a": {"b": 0}}, ("a", "b", "c"), "a.b is not a map", id="number"),
        pytest.param({"a": []}, ("a", "b"), "a is not a map", id="list-for-a-map"),
        pytest.param({"a": [{}]}, ("a", 1, "b"), "a is not a map", id="past-the-end"),
        pytest.param({"a": ["x"]}, ("a", 0, "b"), "a[0] is not a map", id="item"),
        pytest.param({"a": ["x"]}, ("a", 0, "b", "c"), "a[0] is not a map", id="parent-in-an-item"),
        pytest.param({"a": {"b/c": []}}, ("a", "b/c", "d"), "a[b/c] is not a map", id="key-that-is-no-name"),
    ],
)
def test_places_where_nothing_can_be_put(obj: Json, location: Location, message: str) -> None:
    """A parent that is not a map is named rather than overwritten."""
    with pytest.raises(PatchError) as raised:
        put(obj, location, 1)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("obj", "location", "operation", "result"),
    [
        pytest.param({"a": 1, "b": 2}, ("a",), {"op": "remove", "path": "/a"}, {"b": 2}, id="key"),
        pytest.param(
            {"a": [{"b/c": 1}]}, ("a", 0, "b/c"), {"op": "remove", "path": "/a/0/b~1c"}, {"a": [{}]}, id="in-an-item"
        ),
    ],
)
def test_removing(obj: Json, location: Location, operation: PatchOperation, result: Json) -> None:
    """What stood at a place is gone afterwards, and its parents stay."""
    assert remove(location) == operation
    assert apply(obj, [operation]) == result


def test_operations_stay_as_they_are() -> None:
    """A list that one operation adds and the next appends to does not grow in the operations, which are answered."""
    operations: list[PatchOperation] = [_add("/list", [1]), _add("/list/-", 2)]
    sent = deepcopy(operations)

    assert (apply({}, operations), apply({}, operations)) == ({"list": [1, 2]}, {"list": [1, 2]})
    assert operations == sent


@pytest.mark.parametrize(
    ("operations", "in_place"),
    [
        pytest.param([], True, id="nothing"),
        pytest.param([_add("/new", 1)], True, id="key"),
        pytest.param([_add("/map/new", 1)], True, id="deeper-key"),
        pytest.param([_add("/list/-", 1)] * 2, True, id="end-of-a-list"),
        pytest.param([_add("/absent/new", 1)], False, id="missing-parent"),
        pytest.param([_add("/null/new", 1)], False, id="null-parent"),
        pytest.param([_add("/list/0", 1)], False, id="in-a-list"),
        pytest.param([_add("/list/x", 1)], False, id="key-of-a-list"),
        pytest.param([_add("/map/a~1b", 1)], False, id="escaped-key"),
        pytest.param([{"op": "remove", "path": "/map"}], False, id="another-operation"),
        pytest.param([_add("/map/new", 1), _add("/absent/new", 1)], False, id="one-of-two"),
        pytest.param([_add("/map", 1), _add("/map/new", 1)], False, id="parent-replaced-before"),
    ],
)
def test_operations_that_surely_apply(operations: list[PatchOperation], in_place: bool) -> None:  # noqa: FBT001
    """Only additions to a map or to the end of a list that is there are taken to apply without a trial."""
    assert adds_in_place({"map": {}, "list": [], "null": None}, operations) is in_place
