"""Reads the JSON with which a file begins, and keeps the place of each value.

kubectl reads a file as JSON as long as objects of JSON follow each other, and the rest as YAML (decoder.go in
k8s.io/apimachinery's pkg/util/yaml). JSON differs from YAML in escaped surrogate pairs, tabs and Unicode's line breaks.
Unlike kubectl, this also reads objects after a line of `---` or a comment, and another value that is alone in its file.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

import yaml

_BETWEEN = re.compile(r"(?:\s+|#[^\n]*|---[^\S\n]*(?=[#\n]|\Z))*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s,:{}\[\]"]+')
# An escape with its backslash; the group is a half of a surrogate pair without the other half.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
_TAG = "tag:yaml.org,2002:"
_TAGS = {'"': "str", "t": "bool", "f": "bool", "n": "null"}

_Marks = Callable[[int], yaml.Mark]


class JsonValue(NamedTuple):
    """A value in a file, and `node` with the places of its parts."""

    value: Any
    node: yaml.Node


def values(name: str, text: str, depth: int) -> tuple[list[JsonValue], int]:
    """The values at the beginning of a file, and the offset of the rest, which is not JSON or nested deeper."""
    if not begins(text):
        return [], 0
    at = _next(text, 0)
    readable = _ESCAPE.sub(_replaced, text)
    marks = _marks(name, text)
    result: list[JsonValue] = []
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(readable, at)
        except (ValueError, RecursionError):
            break
        node, after = _node(text, at, end, marks, depth), _next(text, end)
        if node is None or not (isinstance(value, dict) or (after == len(text) and not result)):
            break
        result.append(JsonValue(value, node))
        at = after
    return result, at if result else 0


def begins(text: str) -> bool:
    """Whether a text begins as JSON does."""
    return text.startswith(("{", "[", '"'), _next(text, 0))


def _next(text: str, offset: int) -> int:
    """The offset of the next value."""
    between = _BETWEEN.match(text, offset)
    return offset if between is None else between.end()


def _replaced(escape: re.Match[str]) -> str:
    """An escape as Go reads it: half a surrogate pair is the replacement character, of the same length."""
    return str(escape[0]) if escape[1] is None else "\\ufffd"


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)


def _marks(name: str, text: str) -> _Marks:
    """The function that returns the place of an offset in the text."""
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))

    def mark(offset: int) -> yaml.Mark:
        line = bisect_right(starts, offset) - 1
        return yaml.Mark(name, offset, line, offset - starts[line], None, 0)

    return mark


def _node(text: str, start: int, end: int, mark: _Marks, depth: int) -> yaml.Node | None:
    """The node of the value between two offsets; None if it is nested deeper than this."""
    parts: list[list[yaml.Node]] = [[]]
    starts: list[yaml.Mark] = []
    for token in _TOKEN.finditer(text, start, end):
        first = token[0][0]
        if first in "{[":
            if len(parts) > depth:
                return None
            parts.append([])
            starts.append(mark(token.start()))
        elif first in "}]":
            items = parts.pop()
            parts[-1].append(_collection(items, starts.pop(), mark(token.end()), is_map=first == "}"))
        else:
            tag, value = _TAGS.get(first, "float"), json.loads(token[0]) if first == '"' else token[0]
            marks = mark(token.start()), mark(token.end())
            parts[-1].append(yaml.ScalarNode(f"{_TAG}{tag}", value, *marks, style='"' if first == '"' else None))
    return parts[0][0]


def _collection(items: list[yaml.Node], start: yaml.Mark, end: yaml.Mark, *, is_map: bool) -> yaml.Node:
    if not is_map:
        return yaml.SequenceNode(f"{_TAG}seq", items, start, end, flow_style=True)
    pairs = list(zip(items[::2], items[1::2], strict=True))
    return yaml.MappingNode(f"{_TAG}map", pairs, start, end, flow_style=True)
