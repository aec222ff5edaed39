"""JSON Patch with the habits of the API server's implementation."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import Json

from policies.admissionpolicy.mutation import dispatcher
from policies.admissionpolicy.mutation.dispatcher import DisagreementError, OperationError
from policies.cel.patchtypes import JSONPatch
from policies.cel.values import ABSENT

_DOCUMENT: dict[str, Any] = {"map": {"a": 1, "none": None, "a/b": 2, "empty": {}}, "list": [1, 2, 3], "text": "x"}
_CASES = yaml.safe_load(Path(__file__).with_name("jsonpatch.yaml").read_text(encoding="utf-8"))


def _operation(case: Json) -> JSONPatch:
    return JSONPatch(case["op"], case["path"], case.get("from", ""), case.get("value", ABSENT))


def _id(case: Json) -> str:
    return str(case.get("name", list(case.values())))


@pytest.mark.parametrize("case", _CASES["applied"], ids=_id)
def test_operations(case: Json) -> None:
    """An operation does what it does in the API server, and the document is not changed."""
    before = deepcopy(_DOCUMENT)

    result = dispatcher.apply(_DOCUMENT, [_operation(case)])

    assert result == case.get("result", _DOCUMENT | case.get("changes", {}))
    assert before == _DOCUMENT


@pytest.mark.parametrize("case", _CASES["failed"], ids=_id)
def test_failed_tests(case: Json) -> None:
    """A test that does not agree is told from an operation that does not apply."""
    with pytest.raises(DisagreementError) as caught:
        dispatcher.apply(_DOCUMENT, [_operation(case)])

    assert str(caught.value) == f"testing value {case['path']} failed: test failed"


@pytest.mark.parametrize("case", _CASES["refused"], ids=_id)
def test_operations_that_do_not_apply(case: Json) -> None:
    """An operation that does not apply is refused, with the reason."""
    with pytest.raises(OperationError) as caught:
        dispatcher.apply(_DOCUMENT, [_operation(case)])

    assert (type(caught.value), str(caught.value)) == (OperationError, case["text"])


def test_each_operation_sees_the_last_result() -> None:
    """Operations are applied one after the other; containers that none reaches are shared."""
    operations = [
        JSONPatch("add", "/new", value={}),
        JSONPatch("add", "/new/a", value=1),
        JSONPatch("move", "/map/b", "/new/a"),
    ]

    result = dispatcher.apply(_DOCUMENT, operations)

    assert result == _DOCUMENT | {"new": {}, "map": {**_DOCUMENT["map"], "b": 1}}
    assert result["list"] is _DOCUMENT["list"]


def test_copies_are_limited() -> None:
    """All copies together add no more than the API server allows."""
    document = {"big": "x" * (dispatcher.MAX_COPIED_BYTES // 2)}
    copies = [JSONPatch("copy", f"/{name}", "/big") for name in ("a", "b")]

    assert len(dispatcher.apply(document, copies[:1])) == 2
    with pytest.raises(OperationError) as caught:
        dispatcher.apply(document, copies)
    size = 2 * (dispatcher.MAX_COPIED_BYTES // 2 + 2)
    assert str(caught.value) == f"copy /b from /big: the patch copies {size} bytes, and may copy 3145728"
