"""JSON patches: they apply to the object as it was sent, whatever is missing in it."""

from copy import deepcopy
from typing import Any

import pytest
from support.builders import Json

from policies.engine.patch import PatchError, adds_in_place, append, apply, put, remove
from policies.engine.rule import PatchOperation
from policies.objects.fieldpath import Location, lookup

_KEYS = ("spec", "template", "list")


def _add(path: str, value: Any = 1) -> PatchOperation:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.parametrize(
    ("obj", "operations"),
    [
        pytest.param({}, [_add("/spec", {"template": {"list": [1, 2]}})], id="no-parents"),
        pytest.param({"spec": None, "a": 1}, [_add("/spec", {"template": {"list": [1, 2]}})], id="null-parent"),
        pytest.param({"spec": {"a": 1}}, [_add("/spec/template", {"list": [1, 2]})], id="one-parent"),
        pytest.param({"spec": {"template": {}}}, [_add("/spec/template/list", [1, 2])], id="no-list"),
        pytest.param({"spec": {"template": {"list": None}}}, [_add("/spec/template/list", [1, 2])], id="null-list"),
        *(
            pytest.param(
                {"spec": {"template": {"list": listed}}}, [_add("/spec/template/list/-", n) for n in (1, 2)], id=name
            )
            for name, listed in (("empty-list", []), ("list", [0]))
        ),
    ],
)
def test_appending(obj: Json, operations: list[PatchOperation]) -> None:
    """Items go to the end of a list, in order; what is missing or null on the way is made with one operation."""
    sent = deepcopy(obj)

    assert list(append(obj, _KEYS, [1, 2])) == operations
    assert lookup(apply(obj, operations), _KEYS) == [*(lookup(obj, _KEYS) or []), 1, 2]
    assert (obj, append(obj, _KEYS, [])) == (sent, ())


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"spec": "x"}, "spec is not a map"),
        ({"spec": []}, "spec is not a map"),
        ({"spec": {"template": 0}}, "spec.template is not a map"),
        ({"spec": {"template": {"list": {}}}}, "spec.template.list is not a list"),
        ({"spec": {"template": {"list": "x"}}}, "spec.template.list is not a list"),
    ],
)
def test_places_that_cannot_be_appended_to(obj: Json, message: str) -> None:
    """A parent that is not a map, or a place that is not a list, is named rather than overwritten."""
    with pytest.raises(PatchError, match=f"^{message}$"):
        append(obj, _KEYS, [1])


@pytest.mark.parametrize(
    ("obj", "operation"),
    [
        *(({"spec": parent}, _add("/spec/a")) for parent in (None, "x")),
        *(({"list": []}, _add(path)) for path in ("/spec/a", "/list/7", "/list/a", "spec")),
        ({"spec": None}, _add("/spec/-")),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 2}),
        *(({}, {"path": "/spec", **rest}) for rest in ({"op": "remove"}, {"op": "add"}, {"op": "grow"}, {})),
    ],
)
def test_patches_that_do_not_apply(obj: Any, operation: PatchOperation) -> None:
    """Whatever is wrong with a patch is one error, and the object stays as it was."""
    sent = deepcopy(obj)

    with pytest.raises(PatchError, match=r"^the patch does not apply: ."):
        apply(obj, [operation])

    assert obj == sent


@pytest.mark.parametrize(
    ("obj", "location", "operation"),
    [
        pytest.param({}, ("a",), _add("/a"), id="new-key"),
        pytest.param({"a": [2]}, ("a",), _add("/a"), id="in-its-place"),
        pytest.param({"a": {}}, ("a", "b"), _add("/a/b"), id="deeper"),
        pytest.param({}, ("a", "b", "c"), _add("/a", {"b": {"c": 1}}), id="parents"),
        pytest.param({"a": {"b": None, "x": 0}}, ("a", "b", "c"), _add("/a/b", {"c": 1}), id="null-parent"),
        pytest.param({"a": [{}, {"b": 0}]}, ("a", 1, "c"), _add("/a/1/c"), id="in-an-item"),
        pytest.param({"a": [{}]}, ("a", 0, "b", "c"), _add("/a/0/b", {"c": 1}), id="parents-in-an-item"),
        pytest.param({"a": {}}, ("a", "b", "b/c~d"), _add("/a/b", {"b/c~d": 1}), id="key-in-a-new-map"),
        pytest.param({"a": {}}, ("a", "b/c~d"), _add("/a/b~1c~0d"), id="escaped-key"),
    ],
)
def test_putting(obj: Json, location: Location, operation: PatchOperation) -> None:
    """A value stands at its place afterwards, whatever stood there; what is missing or null on the way is made."""
    sent = deepcopy(obj)

    assert put(obj, location, 1) == (operation,)
    changed = apply(obj, [operation])
    assert (lookup(changed, location), obj) == (1, sent)
    assert lookup(apply(changed, [remove(location)]), location) is None


@pytest.mark.parametrize(
    ("obj", "location", "message"),
    [
        ({"a": "x"}, ("a", "b"), "a is not a map"),
        ({"a": {"b": 0}}, ("a", "b", "c"), "a.b is not a map"),
        ({"a": []}, ("a", "b"), "a is not a map"),
        ({"a": [{}]}, ("a", 1, "b"), "a is not a map"),
        ({"a": ["x"]}, ("a", 0, "b"), "a[0] is not a map"),
        ({"a": ["x"]}, ("a", 0, "b", "c"), "a[0] is not a map"),
        ({"a": {"b/c": []}}, ("a", "b/c", "d"), "a[b/c] is not a map"),
    ],
)
def test_places_where_nothing_can_be_put(obj: Json, location: Location, message: str) -> None:
    """A parent that is not a map is named rather than overwritten."""
    with pytest.raises(PatchError) as raised:
        put(obj, location, 1)

    assert str(raised.value) == message


def test_operations_stay_as_they_are() -> None:
    """A list that one operation adds and the next appends to does not grow in the operations, which are answered."""
    operations: list[PatchOperation] = [_add("/list", [1]), _add("/list/-", 2)]
    sent = deepcopy(operations)

    assert (apply({}, operations), apply({}, operations)) == ({"list": [1, 2]}, {"list": [1, 2]})
    assert operations == sent


def test_operations_that_surely_apply() -> None:
    """Only additions to a map or to the end of a list that is there are taken to apply without a trial."""
    surely: list[list[PatchOperation]] = [[], [_add("/new")], [_add("/map/new")], [_add("/list/-")] * 2]
    perhaps: list[list[PatchOperation]] = [
        *([_add(path)] for path in ("/absent/new", "/null/new", "/list/0", "/list/x", "/map/a~1b")),
        *([_add("/map/new"), _add("/absent/new")], [_add("/map"), _add("/map/new")]),
        [{"op": "remove", "path": "/map"}],
    ]
    obj: Json = {"map": {}, "list": [], "null": None}

    assert [each for each in (*surely, *perhaps) if adds_in_place(obj, each)] == surely
