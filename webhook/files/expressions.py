"""Formats the expressions of the policies in a YAML file, and leaves everything around them as it is.

A block stays a block. Another scalar stays in its quotes as long as its text is one line, and else becomes a block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from policies.admissionpolicy.documents.fields import KINDS
from policies.admissionpolicy.documents.reader import GROUP
from policies.cel.syntax.formatting import WIDTH, KeptError, formatted, one_line
from policies.cel.syntax.source import CompileError, Source
from webhook.files import yamlfile, yamlscalar
from webhook.files.yamlfile import FileError

_INDENT = 2
_HEADER = re.compile(r"[|>][+-]?(?=\s|$)")
_EXPRESSIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "matchConditions": (("expression",),),
    "variables": (("expression",),),
    "validations": (("expression",), ("messageExpression",)),
    "auditAnnotations": (("valueExpression",),),
    "mutations": (("applyConfiguration", "expression"), ("jsonPatch", "expression")),
}
_Path = tuple[str | int, ...]


class Formatting(NamedTuple):
    """The new text of a file, the expressions that were left alone, and those that are no CEL, each with its place."""

    text: str
    kept: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class _Edit(NamedTuple):
    """The text between two offsets of a file is replaced."""

    start: int
    end: int
    text: str


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
    for edit in sorted(edits, reverse=True):
        result = result[: edit.start] + edit.text + result[edit.end :]
    if _values(name, text) != _values(name, result):
        raise FileError(f"{name}: its expressions cannot be written otherwise without changing other things in it")
    return Formatting(result, tuple(kept))


class _Scalar:
    """An expression in a file. column: of its key, from 0. flows: whether it is inside of braces or brackets."""

    def __init__(self, name: str, text: str, node: yaml.ScalarNode, column: int, *, flows: bool) -> None:
        lines = text.splitlines(keepends=True)
        line = int(node.start_mark.line)
        self.place = line + 1, int(node.start_mark.column) + 1
        self.source = Source(str(node.value), name, *yamlscalar.place(lines, *self.place))
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
            line = one_line(self.source)
            scalar = self._in_quotes(line)
            width = self._start - self._line_start + len(scalar)
            if self._flows or width <= WIDTH or "\n" not in broken:
                return None if line == value else _Edit(self._start, self._end, scalar)
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
            return _Edit(self._start, self._line_after(self._end), f"|-{rest}{self._end_of_line}{lines}")
        header = self._text[self._start + 1 : self._line_after(self._start)]
        last = self._start + len(self._text[self._start : self._end].rstrip())
        return _Edit(self._start, self._line_after(last), f"|{header}{lines}")

    def _line_after(self, offset: int) -> int:
        at = self._text.find("\n", offset)
        return len(self._text) if at < 0 else at + 1


def _scalars(name: str, text: str) -> Iterator[_Scalar]:
    """The expressions of a file. An alias stands for one that is written elsewhere."""
    places = set()
    for document in yamlfile.load(name, text):
        for at, part in document.parts():
            for path in _paths(part):
                scalar = _scalar(name, text, document.node, (*at, *path))
                if scalar is not None and scalar.place not in places:
                    places.add(scalar.place)
                    yield scalar


def _paths(value: Any) -> Iterator[_Path]:
    """The paths of the expressions in an object."""
    if not isinstance(value, dict) or value.get("kind") not in KINDS:
        return
    spec = value.get("spec")
    if str(value.get("apiVersion")).partition("/")[0] != GROUP or not isinstance(spec, dict):
        return
    for field, paths in _EXPRESSIONS.items():
        items = spec.get(field)
        for index in range(len(items) if isinstance(items, list) else 0):
            for path in paths:
                yield "spec", field, index, *path


def _scalar(name: str, text: str, root: yaml.Node, path: _Path) -> _Scalar | None:
    """The scalar at a path; None if there is none."""
    key: yaml.Node | None = None
    node: yaml.Node | None = root
    flows = False
    for step in path:
        if node is None:
            return None
        flows = flows or bool(getattr(node, "flow_style", False))
        key, node = yamlfile.child(node, step)
    if key is None or not isinstance(node, yaml.ScalarNode) or not node.value.strip():
        return None
    return _Scalar(name, text, node, int(key.start_mark.column), flows=flows)


def _values(name: str, text: str) -> list[Any]:
    """What a file holds besides its expressions."""
    documents = yamlfile.load(name, text)
    for document in documents:
        for _, part in document.parts():
            for path in _paths(part):
                _clear(part, path)
    return [document.value for document in documents]


def _clear(value: Any, path: Sequence[Any]) -> None:
    """Remove the text at a path, if there is one."""
    for step in path[:-1]:
        value = value[step] if isinstance(value, list) else value.get(step) if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(value.get(path[-1]), str):
        value[path[-1]] = ""
