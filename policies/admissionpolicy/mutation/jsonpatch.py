"""Applies a JSON Patch as the API server does, with gopkg.in/evanphx/json-patch.v4, which differs from RFC 6902.

`replace` sets a missing field, `copy` reads null from a missing field, an index may count from the end, and a path
without a leading slash loses its first part. The package `jsonpatch` does none of that. The argument is not changed:
only the containers along changed paths are copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from policies.cel.values import ABSENT
from policies.golang.strconv import quote

MAX_COPIED_BYTES = 3 * 1024 * 1024  # --json-patch-max-copy-bytes of kube-apiserver's defaults (server/config.go)
_INDEX = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_ESCAPES = {"~0": "~", "~1": "/"}


class OperationError(Exception):
    """An operation that cannot be applied; the text is the API server's."""


class DisagreementError(OperationError):
    """A `test` failed, so that the whole patch is skipped."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `value` is JSON, or ABSENT if none was given."""

    op: str
    path: str
    from_: str = ""
    value: Any = ABSENT


@dataclass(frozen=True, slots=True)
class _Place:
    """The target of a path: its container, the keys and indexes to the container, and the last part of the path."""

    container: Any
    parents: tuple[str | int, ...]
    last: str


def apply(document: Any, operations: Iterable[Operation]) -> Any:
    """The document after the operations. Raises OperationError, or DisagreementError if a test fails."""
    copied = 0
    for operation in operations:
        if operation.op == "copy":
            document, size = _copy(document, operation, copied)
            copied += size
            continue
        call = _CALLS.get(operation.op)
        if call is None:
            raise OperationError(f"Unexpected kind: {operation.op}")
        document = call(document, operation)
    return document


@contextmanager
def _within(what: str) -> Iterator[None]:
    """Add the current step of an operation to its errors."""
    try:
        yield
    except OperationError as error:
        raise OperationError(f"{what}: {error}") from error


def _add(document: Any, operation: Operation) -> Any:
    place = _find(document, operation.path, f'add operation does not apply: doc is missing path: "{operation.path}"')
    with _within(f"error in add for path: '{operation.path}'"):
        return _added(document, place, None if operation.value is ABSENT else operation.value)


def _remove(document: Any, operation: Operation) -> Any:
    place = _find(document, operation.path, f'remove operation does not apply: doc is missing path: "{operation.path}"')
    with _within(f"error in remove for path: '{operation.path}'"):
        return _removed(document, place)


def _replace(document: Any, operation: Operation) -> Any:
    value = None if operation.value is ABSENT else operation.value
    if not operation.path:
        if not isinstance(value, dict | list):
            raise OperationError("replace operation value must be object or array: %!w(<nil>)")
        return value
    place = _find(document, operation.path, f"replace operation does not apply: doc is missing path: {operation.path}")
    try:
        key = place.last if isinstance(place.container, dict) else _index(place.last, len(place.container))
    except OperationError as error:
        words = f"replace operation does not apply: doc is missing key: {operation.path}: missing value"
        raise OperationError(words) from error

    def set_value(container: Any) -> None:
        container[key] = value

    return _changed(document, place.parents, set_value)


def _move(document: Any, operation: Operation) -> Any:
    source = _source(document, operation)
    with _within(f"error in move for path: '{source.last}'"):
        value = _get(source.container, source.last)
        document = _removed(document, source)
    place = _destination(document, operation)
    with _within(f"error in move for path: '{operation.path}'"):
        return _added(document, place, value)


def _copy(document: Any, operation: Operation, copied: int) -> tuple[Any, int]:
    source = _source(document, operation)
    with _within(f"error in copy for from: '{operation.from_}'"):
        value = _get(source.container, source.last)
    place = _destination(document, operation)
    size = 0 if value is None else len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    if copied + size > MAX_COPIED_BYTES:
        raise OperationError(
            f"Unable to complete the copy, the accumulated size increase of copy is {copied + size}, "
            f"exceeding the limit {MAX_COPIED_BYTES}"
        )
    with _within("error while adding value during copy"):
        return _added(document, place, value), size


def _test(document: Any, operation: Operation) -> Any:
    failed = DisagreementError(f"testing value {operation.path} failed: test failed")
    if not operation.path:
        if operation.value is ABSENT or not _equal(document, operation.value):
            raise failed
        return document
    place = _find(document, operation.path, f"test operation does not apply: is missing path: {operation.path}")
    with _within(f"error in test for path: '{operation.path}'"):
        value = _get(place.container, place.last)
    if value is None:  # null or missing: equal only to a test without a value
        agrees = operation.value is ABSENT
    else:  # a test treats null as an empty map
        agrees = value == {} if operation.value is None else _equal(value, operation.value)
    if not agrees:
        raise failed
    return document


_CALLS: Mapping[str, Callable[[Any, Operation], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "test": _test,
}


def _source(document: Any, operation: Operation) -> _Place:
    if not operation.from_:
        words = f"{operation.op} operation failed to decode from: operation, missing from field: missing value"
        raise OperationError(words)
    problem = f"{operation.op} operation does not apply: doc is missing from path: {operation.from_}"
    return _find(document, operation.from_, problem)


def _destination(document: Any, operation: Operation) -> _Place:
    problem = f"{operation.op} operation does not apply: doc is missing destination path: {operation.path}"
    return _find(document, operation.path, problem)


def _find(document: Any, path: str, problem: str) -> _Place:
    """The target of a path. Raises OperationError with the problem if its container does not exist."""
    missing = OperationError(f"{problem}: missing value")
    _, *parts = path.split("/")
    if not parts:
        raise missing
    container = document
    parents: list[str | int] = []
    for part in parts[:-1]:
        try:
            key = _decoded(part) if isinstance(container, dict) else _index(_decoded(part), len(container))
        except OperationError as error:
            raise missing from error
        container = container.get(key) if isinstance(container, dict) else container[key]
        if not isinstance(container, dict | list):
            raise missing
        parents.append(key)
    return _Place(container, tuple(parents), _decoded(parts[-1]))


def _decoded(part: str) -> str:
    return re.sub("~[01]", lambda escape: _ESCAPES[escape[0]], part) if "~" in part else part


def _number(text: str) -> int:
    if _INDEX.fullmatch(text) is None:
        raise OperationError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    return int(text)


def _index(text: str, size: int) -> int:
    """The index for a list of that size; negative indexes count from the end."""
    number = _number(text)
    if not -size <= number < size:
        raise OperationError(f"Unable to access invalid index: {number}: invalid index referenced")
    return number % size


def _get(container: Any, key: str) -> Any:
    return container.get(key) if isinstance(container, dict) else container[_index(key, len(container))]


def _added(document: Any, place: _Place, value: Any) -> Any:
    if isinstance(place.container, dict):
        return _changed(document, place.parents, lambda container: container.__setitem__(place.last, value))
    size = len(place.container)
    if place.last == "-":
        at = size
    else:
        try:
            number = _number(place.last)
        except OperationError as error:
            raise OperationError(f"value was not a proper array index: '{place.last}': {error}") from error
        if not -size - 1 <= number <= size:
            raise OperationError(f"Unable to access invalid index: {number}: invalid index referenced")
        at = number % (size + 1)
    return _changed(document, place.parents, lambda container: container.insert(at, value))


def _removed(document: Any, place: _Place) -> Any:
    if isinstance(place.container, dict):
        if place.last not in place.container:
            raise OperationError(f"Unable to remove nonexistent key: {place.last}: missing value")
        return _changed(document, place.parents, lambda container: container.pop(place.last))
    at = _index(place.last, len(place.container))
    return _changed(document, place.parents, lambda container: container.pop(at))


def _changed(node: Any, parents: Sequence[str | int], edit: Callable[[Any], object]) -> Any:
    """A copy of the containers along a path, with the last one edited."""
    fresh = node.copy()
    if parents:
        fresh[parents[0]] = _changed(node[parents[0]], parents[1:], edit)
    else:
        edit(fresh)
    return fresh


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
