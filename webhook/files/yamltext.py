"""Edits the text of YAML documents, and keeps what their authors wrote around the values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import yaml

from webhook.files import yamlfile

_MARKER = re.compile(r"^(?:%.*\n)*---(?=\s|$)", re.MULTILINE)
Entry = tuple[yaml.Node, yaml.Node]
"""A key and its value."""


def documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a file, each with the number of lines before it, including documents with only comments."""
    start = before = 0
    for marker in _MARKER.finditer(text):
        yield before, text[start : marker.start()]
        before += text.count("\n", start, marker.end())
        start = marker.end()
    yield before, text[start:]


def without(text: str, path: Sequence[str], prefix: str) -> str:
    """A document without the keys with a prefix in the map at a path, and without the map if it becomes empty.

    Comments on removed lines are removed, too. Raises FileError if the rest is not YAML because an anchor is missing.
    """
    while True:
        (document,) = yamlfile.load("<document>", text)
        place = _first(document.node, path, prefix)
        if place is None:
            return text
        text = _cut(text, *place)


def _first(root: yaml.Node, path: Sequence[str], prefix: str) -> tuple[yaml.MappingNode, int] | None:
    """The map and the index of the first entry to remove; None if there is none."""
    above: tuple[yaml.MappingNode, int] | None = None
    node: yaml.Node | None = root
    for step in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        index = next((index for index, (key, _) in enumerate(node.value) if key.value == step), None)
        if index is None:
            return None
        above, node = (node, index), node.value[index][1]
    if not isinstance(node, yaml.MappingNode):
        return None
    indexes = [index for index, (key, _) in enumerate(node.value) if str(key.value).startswith(prefix)]
    if not indexes:
        return None
    return above if above is not None and len(indexes) == len(node.value) else (node, indexes[0])


def _cut(text: str, parent: yaml.MappingNode, index: int) -> str:
    """The text without one entry of a map: without its lines or, in braces, without the text between commas."""
    lines = text.splitlines(keepends=True)
    key, value = parent.value[index]
    if not parent.flow_style:
        return "".join([*lines[: key.start_mark.line], *lines[_last_line(value) + 1 :]])
    start, end = _offset(lines, key.start_mark), _offset(lines, value.end_mark)
    if index + 1 < len(parent.value):
        end = _offset(lines, parent.value[index + 1][0].start_mark)
    elif index > 0:
        start = _offset(lines, parent.value[index - 1][1].end_mark)
    return text[:start] + text[end:]


def _last_line(node: yaml.Node) -> int:
    """The last line of a value. A collection in block style ends with its last part, before following comments."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    ends_below = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line
    return int(node.end_mark.line) - ends_below


def _offset(lines: Sequence[str], mark: yaml.Mark) -> int:
    return sum(map(len, lines[: mark.line])) + int(mark.column)
