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
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

import yaml

_BETWEEN = re.compile(r"(?:\s+|#[^\n]*|---[^\S\n]*(?=[#\n]|\Z))*")
_WHITE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s,:{}\[\]"]+')
# An escape with its backslash; the group is a half of a surrogate pair without the other half.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
_TAG = "tag:yaml.org,2002:"
_TAGS = {'"': "str", "t": "bool", "f": "bool", "n": "null"}

_Marks = Callable[[int], yaml.Mark]


class JsonValue(NamedTuple):
    """A value in a file. line: where it begins, counted from 0. duplicates: whether a map in it has a key twice.

    node: makes the node with all places.
    """

    value: Any
    line: int
    duplicates: bool
    node: Callable[[], yaml.Node]


def values(name: str, text: str, depth: int) -> tuple[list[JsonValue], int]:
    """The values at the beginning of a file, and the offset of the rest, which is not JSON or nested deeper."""
    if not begins(text):
        return [], 0
    at = _next(text, 0)
    readable = _ESCAPE.sub(_replaced, text)
    result: list[JsonValue] = []
    while at < len(text):
        maps = _Maps()
        try:
            value, end = json.JSONDecoder(parse_constant=_refused, object_pairs_hook=maps.read).raw_decode(readable, at)
        except (ValueError, RecursionError):
            break
        after = _next(text, end)
        if _is_deeper(value, depth) or not (isinstance(value, dict) or (after == len(text) and not result)):
            break
        line = len(text[: at + 1].splitlines()) - 1
        result.append(JsonValue(value, line, maps.duplicates, partial(_node, name, text, at, end)))
        at = after
    return result, at if result else 0


class _Maps:
    """Makes maps of pairs, and notices if a key is there twice: the nodes, which say where, take ten times as long."""

    def __init__(self) -> None:
        self.duplicates = False

    def read(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """The map."""
        value = dict(pairs)
        self.duplicates = self.duplicates or len(value) < len(pairs)
        return value


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether a value has more levels of maps and lists."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return children is not None and (depth <= 0 or any(_is_deeper(child, depth - 1) for child in children))


def items(text: str) -> list[tuple[int, int]] | None:
    """Where each item of a List begins and ends, if the text is one and nothing else; else None.

    Each item is JSON of its own, so it can be read without the others.
    """
    places: list[tuple[int, int]] = []
    kind: Any = ""
    try:
        at, done = _within(text, _next(text, 0), "{"), False
        while not done:
            key, at = _DECODER.raw_decode(text, at)
            at = _within(text, _blank(text, at), ":")
            if key == "items" and text[at] == "[" and not places:
                places, at = _elements(text, at)
            else:
                value, at = _DECODER.raw_decode(text, at)
                kind = value if key == "kind" else kind
                if key == "items":
                    return None
            at = _blank(text, at)
            done = text[at] == "}"
            at = at + 1 if done else _within(text, at, ",")
    except (ValueError, IndexError, RecursionError):
        return None
    return places if isinstance(kind, str) and kind.endswith("List") and _next(text, at) == len(text) else None


def _elements(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """The places of the elements of a list, and the end of the list. Raises ValueError and IndexError."""
    places = []
    at = _blank(text, start + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        places.append((at, end))
        at = _blank(text, end)
        if text[at] != "]":
            at = _within(text, at, ",")
    return places, at + 1


def _within(text: str, at: int, sign: str) -> int:
    """The offset of what follows a sign. Raises ValueError if another one is there."""
    if text[at] != sign:
        raise ValueError(f"{sign} is missing")
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    """The offset of the first character that is not white space."""
    blank = _WHITE.match(text, at)
    return at if blank is None else blank.end()


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


def _node(name: str, text: str, start: int, end: int) -> yaml.Node:
    """The node of the value between two offsets."""
    mark = _marks(name, text)
    parts: list[list[yaml.Node]] = [[]]
    starts: list[yaml.Mark] = []
    for token in _TOKEN.finditer(text, start, end):
        first = token[0][0]
        if first in "{[":
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
