"""JSON Patch with the habits of the API server's implementation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from policies.admissionpolicy.mutation import dispatcher
from policies.admissionpolicy.mutation.dispatcher import DisagreementError, Operation, OperationError
from policies.cel.values import ABSENT

_DOCUMENT: dict[str, Any] = {"map": {"a": 1, "none": None, "a/b": 2, "empty": {}}, "list": [1, 2, 3], "text": "x"}


def _do(op: str, path: str, value: Any = ABSENT, from_: str = "") -> Operation:
    return Operation(op, path, from_, value)


def _with(**changes: Any) -> dict[str, Any]:
    return {**_DOCUMENT, **changes}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        pytest.param(_do("add", "/new", 1), _with(new=1), id="add"),
        pytest.param(_do("add", "/new"), _with(new=None), id="add-without-value"),
        pytest.param(_do("add", "ignored/new", 1), _with(new=1), id="add-without-first-slash"),
        pytest.param(_do("add", "/list/1", 9), _with(list=[1, 9, 2, 3]), id="add-at-index"),
        pytest.param(_do("add", "/list/-", 9), _with(list=[1, 2, 3, 9]), id="add-at-end"),
        pytest.param(_do("add", "/list/3", 9), _with(list=[1, 2, 3, 9]), id="add-at-size"),
        pytest.param(_do("add", "/list/-1", 9), _with(list=[1, 2, 3, 9]), id="add-from-the-end"),
        pytest.param(_do("add", "/list/-4", 9), _with(list=[9, 1, 2, 3]), id="add-from-far-from-the-end"),
        pytest.param(_do("add", "/list/+1", 9), _with(list=[1, 9, 2, 3]), id="add-at-index-with-sign"),
        pytest.param(_do("remove", "/map/a~1b"), _with(map={"a": 1, "none": None, "empty": {}}), id="remove-escaped"),
        pytest.param(_do("remove", "/list/-3"), _with(list=[2, 3]), id="remove-from-the-end"),
        pytest.param(_do("replace", "/text", {}), _with(text={}), id="replace"),
        pytest.param(_do("replace", "/text"), _with(text=None), id="replace-without-value"),
        pytest.param(_do("replace", "/new", 1), _with(new=1), id="replace-what-is-not-there"),
        pytest.param(_do("replace", "/list/-1", 9), _with(list=[1, 2, 9]), id="replace-from-the-end"),
        pytest.param(_do("replace", "", {"a": 1}), {"a": 1}, id="replace-all"),
        pytest.param(_do("move", "/list/0", from_="/list/2"), _with(list=[3, 1, 2]), id="move"),
        pytest.param(_do("copy", "/list/0", from_="/text"), _with(list=["x", 1, 2, 3]), id="copy"),
        pytest.param(_do("copy", "/new", from_="/map/missing"), _with(new=None), id="copy-of-nothing"),
        pytest.param(_do("test", "/map/a", 1.0), _DOCUMENT, id="test-of-a-number"),
        pytest.param(_do("test", "/map/none"), _DOCUMENT, id="test-of-null-without-value"),
        pytest.param(_do("test", "/map/missing"), _DOCUMENT, id="test-of-nothing-without-value"),
        pytest.param(_do("test", "/map/empty", None), _DOCUMENT, id="test-of-an-empty-map-with-null"),
        pytest.param(_do("test", "", deepcopy(_DOCUMENT)), _DOCUMENT, id="test-of-all"),
    ],
)
def test_operations(operation: Operation, result: Any) -> None:
    """An operation does what it does in the API server, and the document is not changed."""
    before = deepcopy(_DOCUMENT)

    assert dispatcher.apply(_DOCUMENT, [operation]) == result
    assert before == _DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        _do("test", "/map/a", 2),
        _do("test", "/map/a", value=True),
        _do("test", "/map/a", "1"),
        _do("test", "/map/a"),
        _do("test", "/map/none", None),
        _do("test", "/map/missing", None),
        _do("test", "/list", [1, 2]),
        _do("test", "/list", [1, 2, 4]),
        _do("test", "/map/empty", {"a": 1}),
        _do("test", "/text", None),
        _do("test", "", {}),
        _do("test", ""),
    ],
    ids=repr,
)
def test_failed_tests(operation: Operation) -> None:
    """A test that does not agree is told from an operation that does not apply."""
    with pytest.raises(DisagreementError) as caught:
        dispatcher.apply(_DOCUMENT, [operation])

    assert str(caught.value) == f"testing value {operation.path} failed: test failed"


_AT = "{} is no index in a list of 3"


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (_do("", "/a"), " /a: there is no such operation"),
        (_do("add", "/x/y", 1), "add /x/y: there is no map or list at x"),
        (_do("add", "/text/y", 1), "add /text/y: there is no map or list at text"),
        (_do("add", "/list/7/y", 1), f"add /list/7/y: {_AT.format(7)}"),
        (_do("add", "", 1), "add : the path begins with no slash"),
        (_do("add", "/list/4", 1), f"add /list/4: {_AT.format(4)}"),
        (_do("add", "/list/-5", 1), f"add /list/-5: {_AT.format(-5)}"),
        (_do("add", "/list/x", 1), f"add /list/x: {_AT.format('x')}"),
        (_do("remove", "/x/y"), "remove /x/y: there is no map or list at x"),
        (_do("remove", "/x"), "remove /x: there is no x"),
        (_do("remove", "/list/3"), f"remove /list/3: {_AT.format(3)}"),
        (_do("remove", "/list/-"), f"remove /list/-: {_AT.format('-')}"),
        (_do("replace", "/x/y"), "replace /x/y: there is no map or list at x"),
        (_do("replace", "/list/3"), f"replace /list/3: {_AT.format(3)}"),
        (_do("replace", "", 1), "replace : the whole must be a map or a list"),
        (_do("move", "/x"), "move /x: the path begins with no slash"),
        (_do("move", "/x", from_="/y/z"), "move /x from /y/z: there is no map or list at y"),
        (_do("move", "/x", from_="/y"), "move /x from /y: there is no y"),
        (_do("move", "/x", from_="/list/9"), f"move /x from /list/9: {_AT.format(9)}"),
        (_do("move", "/y/z", from_="/text"), "move /y/z from /text: there is no map or list at y"),
        (_do("move", "/list/9", from_="/text"), f"move /list/9 from /text: {_AT.format(9)}"),
        (_do("copy", "/x"), "copy /x: the path begins with no slash"),
        (_do("copy", "/x", from_="/list/9"), f"copy /x from /list/9: {_AT.format(9)}"),
        (_do("copy", "/list/9", from_="/text"), f"copy /list/9 from /text: {_AT.format(9)}"),
        (_do("test", "/x/y", 1), "test /x/y: there is no map or list at x"),
        (_do("test", "/list/9", 1), f"test /list/9: {_AT.format(9)}"),
    ],
    ids=lambda value: "" if isinstance(value, str) else f"{value.op} {value.path} {value.from_}",
)
def test_operations_that_do_not_apply(operation: Operation, text: str) -> None:
    """An operation that does not apply is refused, with the reason."""
    with pytest.raises(OperationError) as caught:
        dispatcher.apply(_DOCUMENT, [operation])

    assert str(caught.value) == text
    assert not isinstance(caught.value, DisagreementError)


def test_each_operation_sees_the_last_result() -> None:
    """Operations are applied one after the other; containers that none reaches are shared."""
    result = dispatcher.apply(
        _DOCUMENT,
        [_do("add", "/new", {}), _do("add", "/new/a", 1), _do("move", "/map/b", from_="/new/a")],
    )

    assert result == _with(new={}, map={**_DOCUMENT["map"], "b": 1})
    assert result["list"] is _DOCUMENT["list"]


def test_copies_are_limited() -> None:
    """All copies together add no more than the API server allows."""
    document = {"big": "x" * (dispatcher.MAX_COPIED_BYTES // 2)}
    copies = [_do("copy", f"/{name}", from_="/big") for name in ("a", "b")]

    assert len(dispatcher.apply(document, copies[:1])) == 2
    with pytest.raises(OperationError) as caught:
        dispatcher.apply(document, copies)
    size = 2 * (dispatcher.MAX_COPIED_BYTES // 2 + 2)
    assert str(caught.value) == f"copy /b from /big: the patch copies {size} bytes, and may copy 3145728"
