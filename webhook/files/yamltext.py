"""Edits the text of YAML files, and keeps what their authors wrote around the values.

It finds the places of a scalar's characters in spite of quotes, escapes and block style (YAML 1.1, chapters 8 and 9);
it replaces a scalar by a text of one or of several lines; and so it formats the expressions of policies. A block stays
a block. Another scalar stays in its quotes as long as its text is one line, and else becomes a block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import yaml

from policies.admissionpolicy.documents.document import KINDS, Place
from policies.admissionpolicy.documents.reader import GROUP
from policies.cel.syntax.formatting import ONE_LINE, WIDTH, KeptError, formatted
from policies.cel.syntax.source import CompileError, Source
from webhook.files import yamlfile
from webhook.files.yamlfile import FileError

_BLANKS = " \t\r"
_LAST_OF_16_BITS = 0xFFFF
_ESCAPES = {"x": 4, "u": 6, "U": 10}


def scalar_place(lines: Sequence[str], line: int, column: int) -> Place:
    """The place where a scalar's text begins. lines: of the file; line, column: of the scalar's node, both from 1.

    A block begins on the line after its indicator, and in the column of its first line that is not empty.
    """
    first = _style(lines, line, column)
    if first in ("'", '"'):
        return line, column + 1
    if first in ("|", ">"):
        text = next((text for text in islice(lines, line, None) if text.strip(_BLANKS)), None)
        return (line, column) if text is None else (line + 1, len(text) - len(text.lstrip(" ")) + 1)
    return line, column


def place_inside(lines: Sequence[str], line: int, column: int, value: str, offset: int) -> Place:
    """The place of the character at an offset of a scalar's value. line, column: of its node, both from 1."""
    style = _style(lines, line, column)
    number, at = scalar_place(lines, line, column)
    if style == "|":
        above = value.count("\n", 0, offset)
        return number + above, at + offset - value.rfind("\n", 0, offset) - 1
    cursor = _Cursor(lines, style, at - 1, number - 1, at - 1)
    for character in value[:offset]:
        cursor.pass_over(character)
    cursor.reach(value[offset : offset + 1])
    return cursor.number + 1, cursor.at + 1


def _style(lines: Sequence[str], line: int, column: int) -> str:
    """The first character of a scalar, which shows its style."""
    return lines[line - 1][column - 1 : column] if 0 < line <= len(lines) else ""


@dataclass(slots=True)
class _Cursor:
    """A place in the file, which moves along with the characters of the value."""

    lines: Sequence[str]
    style: str
    indent: int
    number: int
    at: int

    def pass_over(self, character: str) -> None:
        """Move after a character of the value."""
        self.reach(character)
        if self._ended():
            self._break()
        elif self.style == '"' and self._text[self.at : self.at + 1] == "\\":
            self.at += self._escape(character)
        else:
            self.at += 2 if self.style == "'" and character == "'" else 1

    def _escape(self, character: str) -> int:
        """The length of the escape of a character. JSON writes a character beyond 16 bits as two of them."""
        kind = self._text[self.at + 1 : self.at + 2]
        return _ESCAPES.get(kind, 2) * (2 if kind == "u" and ord(character) > _LAST_OF_16_BITS else 1)

    def reach(self, character: str) -> None:
        """Move to a character. Only a blank or a line break can correspond to a line break in the file."""
        while self.number < len(self.lines) - 1 and (
            (self._ended() and character not in (" ", "\n")) or (self.style == '"' and self._text[self.at :] == "\\")
        ):
            self._break()

    @property
    def _text(self) -> str:
        text = self.lines[self.number] if self.number < len(self.lines) else ""
        return text.rstrip("\r\n") if self.style == ">" else text.rstrip(_BLANKS)

    def _ended(self) -> bool:
        return self.at >= len(self._text)

    def _break(self) -> None:
        self.number += 1
        text = self._text
        self.at = min(self.indent, len(text)) if self.style == ">" else len(text) - len(text.lstrip(_BLANKS))


Entry = tuple[yaml.Node, yaml.Node]
"""A key and its value."""


def documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a file, each with the number of lines before it, including documents with only comments."""
    start = before = 0
    for marker in yamlfile.markers(text):
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
        above: tuple[Any, int] | None = None
        node = document.node
        for step in path:
            keys = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
            if step not in keys:
                return text
            index = keys.index(step)
            above, node = (node, index), node.value[index][1]
        keys = [str(key.value) for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        indexes = [index for index, key in enumerate(keys) if key.startswith(prefix)]
        if not indexes:
            return text
        text = _cut(text, *(above if above is not None and len(indexes) == len(keys) else (node, indexes[0])))


def _cut(text: str, parent: Any, index: int) -> str:
    """The text without one entry of a map: without its lines or, in braces, without the text between commas."""
    lines = text.splitlines(keepends=True)
    key, value = parent.value[index]
    if not parent.flow_style:
        return "".join([*lines[: key.start_mark.line], *lines[_last_line(value) + 1 :]])
    start, end = _offset_of(lines, key.start_mark), _offset_of(lines, value.end_mark)
    if index + 1 < len(parent.value):
        end = _offset_of(lines, parent.value[index + 1][0].start_mark)
    elif index > 0:
        start = _offset_of(lines, parent.value[index - 1][1].end_mark)
    return text[:start] + text[end:]


def _last_line(node: yaml.Node) -> int:
    """The last line of a value. A collection in block style ends with its last part, before following comments."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    ends_below = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line
    return int(node.end_mark.line) - ends_below


def _offset_of(lines: Sequence[str], mark: yaml.Mark) -> int:
    return sum(map(len, lines[: mark.line])) + int(mark.column)


_INDENT = 2
_HEADER = re.compile(r"[|>][+-]?(?=\s|$)")
_EXPRESSIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "matchConditions": (("expression",),),
    "variables": (("expression",),),
    "validations": (("expression",), ("messageExpression",)),
    "auditAnnotations": (("valueExpression",),),
    "mutations": (("applyConfiguration", "expression"), ("jsonPatch", "expression")),
}
_Path = tuple[Any, ...]


class Formatting(NamedTuple):
    """The new text of a file, the expressions that were left alone, and those that are no CEL, each with its place."""

    text: str
    kept: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


_Edit = tuple[int, int, str]
"""Two offsets of a file, and the text that replaces what is between them."""


def format_file(name: str, text: str) -> Formatting:
    """The file with formatted expressions; unchanged if there is an error. Raises FileError."""
    edits: list[_Edit] = []
    kept: list[str] = []
    errors: list[str] = []
    for scalar in _scalars(name, text):
        try:
            edits += [edit] if (edit := scalar.edit()) else []
        except CompileError as error:
            errors.append(str(error))
        except KeptError as reason:
            kept.append(f"{name}:{scalar.source.line}: this expression is left as it is: {reason}")
    if errors or not edits:
        return Formatting(text, tuple(kept), tuple(errors))
    result = text
    for start, end, words in sorted(edits, reverse=True):
        result = result[:start] + words + result[end:]
    if _values(name, text) != _values(name, result):
        raise FileError(f"{name}: its expressions cannot be written otherwise without changing other things in it")
    return Formatting(result, tuple(kept))


class _Scalar:
    """An expression in a file. column: of its key, from 0. flows: whether it is inside of braces or brackets."""

    def __init__(self, name: str, text: str, node: yaml.ScalarNode, column: int, *, flows: bool) -> None:
        lines = text.splitlines(keepends=True)
        line = int(node.start_mark.line)
        self.place = line + 1, int(node.start_mark.column) + 1
        self.source = Source(str(node.value), name, *scalar_place(lines, *self.place))
        self._text = text
        self._flows = flows
        self._line_start = sum(map(len, lines[:line]))
        self._start = self._line_start + int(node.start_mark.column)
        self._end = sum(map(len, lines[: node.end_mark.line])) + int(node.end_mark.column)
        self._first = text[self._start : self._start + 1]
        self._is_block = self._first in ("|", ">")
        self._indent = self.source.column - 1 if self._is_block else column + _INDENT
        self._end_of_line = "\r\n" if lines[line].endswith("\r\n") else "\n"

    def edit(self) -> _Edit | None:
        """What formats it; None if that changes nothing. Raises CompileError and KeptError."""
        if self._first in ("", "&", "!", "*") or (self._is_block and not _HEADER.match(self._text, self._start)):
            raise KeptError("its YAML has an anchor, a tag or a fixed indentation")
        value = self.source.text.strip()
        broken = formatted(self.source, WIDTH - self._indent)
        if not self._is_block:
            line = formatted(self.source, ONE_LINE)
            scalar = self._in_quotes(line)
            width = self._start - self._line_start + len(scalar)
            if self._flows or width <= WIDTH or "\n" not in broken:
                return None if line == value else (self._start, self._end, scalar)
        return None if broken == value else self._as_block(broken)

    def _in_quotes(self, text: str) -> str:
        """A text of one line as a scalar, in the style of this one where that is possible."""
        if self._first == '"':
            return json.dumps(text, ensure_ascii=False)
        if self._first != "'":
            try:
                if [document.value for document in yamlfile.load("", f"{{key: {text}}}")] == [{"key": text}]:
                    return text
            except FileError:
                pass  # it needs quotes
        return f"""'{text.replace("'", "''")}'"""

    def _as_block(self, text: str) -> _Edit:
        """What makes it a literal block with a text. A comment after its first line, and blank lines below, stay."""
        lines = "".join(f"{' ' * self._indent}{line}{self._end_of_line}" for line in text.split("\n"))
        if not self._is_block:
            rest = self._text[self._end :].split("\n", 1)[0].rstrip("\r")
            return self._start, self._line_after(self._end), f"|-{rest}{self._end_of_line}{lines}"
        header = self._text[self._start + 1 : self._line_after(self._start)]
        last = self._start + len(self._text[self._start : self._end].rstrip())
        return self._start, self._line_after(last), f"|{header}{lines}"

    def _line_after(self, offset: int) -> int:
        at = self._text.find("\n", offset)
        return len(self._text) if at < 0 else at + 1


def _scalars(name: str, text: str) -> Iterator[_Scalar]:
    """The expressions of a file. An alias stands for one that is written elsewhere."""
    places = set()
    for document in yamlfile.load(name, text):
        for path in ((*at, *path) for at, part in document.parts() for path in _paths(part)):
            key: yaml.Node | None = None
            node: yaml.Node | None = document.node
            flows = False
            for step in path:
                flows = flows or bool(getattr(node, "flow_style", False))
                key, node = yamlfile.child(node, step)
            if key is not None and isinstance(node, yaml.ScalarNode) and node.value.strip():
                scalar = _Scalar(name, text, node, int(key.start_mark.column), flows=flows)
                if scalar.place not in places:
                    places.add(scalar.place)
                    yield scalar


def _paths(value: Any) -> Iterator[_Path]:
    if not isinstance(value, dict) or str(value.get("kind")) not in KINDS:
        return
    spec = value.get("spec")
    if str(value.get("apiVersion")).partition("/")[0] != GROUP or not isinstance(spec, dict):
        return
    for field, paths in _EXPRESSIONS.items():
        items = spec.get(field)
        for index in range(len(items) if isinstance(items, list) else 0):
            for path in paths:
                yield "spec", field, index, *path


def _values(name: str, text: str) -> list[Any]:
    """What a file holds besides its expressions."""
    documents = yamlfile.load(name, text)
    for part in (part for document in documents for _, part in document.parts()):
        for *above, last in _paths(part):
            value: Any = part
            for step in above:
                value = value[step] if isinstance(value, list) else value.get(step) if isinstance(value, dict) else None
            if isinstance(value, dict) and isinstance(value.get(last), str):
                value[last] = ""
    return [document.value for document in documents]
