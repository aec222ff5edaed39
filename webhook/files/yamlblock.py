"""Replaces a scalar in a YAML file by a text of one or of several lines, and leaves everything around it as it is.

A block stays a block. Another scalar stays in its quotes as long as its text is one line, and else becomes a block.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import yaml

from webhook.files import yamlfile

INDENT = 2
_HEADER = re.compile(r"[|>][+-]?(?=\s|$)")
_BLANKS = " \t\r\n"


class Edit(NamedTuple):
    """The text between two offsets of a file is replaced."""

    start: int
    end: int
    text: str


class Scalar:
    """A scalar in a file. `column`: of its key, from 0. `flows`: whether it is inside of braces or brackets."""

    def __init__(self, text: str, node: yaml.ScalarNode, column: int, *, flows: bool) -> None:
        self.value = str(node.value)
        self.flows = flows
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._line, self._start = int(node.start_mark.line), self._offset(node.start_mark)
        self._end = self._offset(node.end_mark)
        self._column = column
        self.line = self._line + 1

    def _offset(self, mark: yaml.Mark) -> int:
        return sum(map(len, self._lines[: mark.line])) + int(mark.column)

    @property
    def is_block(self) -> bool:
        """Whether it is a literal or a folded block."""
        return self._text[self._start : self._start + 1] in ("|", ">")

    @property
    def is_editable(self) -> bool:
        """Whether it can be replaced: it has no anchor, tag or indentation of its own choice, and is no alias."""
        first = self._text[self._start : self._start + 1]
        return first not in ("", "&", "!", "*") and not (self.is_block and not _HEADER.match(self._text, self._start))

    @property
    def indent(self) -> int:
        """The columns before each line of the block, or of the block that it would become."""
        if not self.is_block:
            return self._column + INDENT
        first = next((line for line in self._lines[self._line + 1 :] if line.strip(_BLANKS)), "")
        return len(first) - len(first.lstrip(" "))

    def on_line(self, text: str) -> tuple[Edit, int]:
        """The edit that puts a text of one line in its place, and the width of the line. Not for a block."""
        scalar = self._written(text)
        before = self._start - sum(map(len, self._lines[: self._line]))
        return Edit(self._start, self._end, scalar), before + len(scalar)

    def _written(self, text: str) -> str:
        quote = self._text[self._start]
        if quote == '"':
            return json.dumps(text, ensure_ascii=False)
        if quote == "'" or not self._is_plain(text):
            return f"""'{text.replace("'", "''")}'"""
        return text

    def _is_plain(self, text: str) -> bool:
        try:
            return [document.value for document in yamlfile.load("", f"{{key: {text}}}")] == [{"key": text}]
        except yamlfile.FileError:
            return False

    def as_block(self, text: str) -> Edit:
        """The edit that makes it a literal block with a text. Comments after it stay. Not inside of braces."""
        end_of_line = "\r\n" if self._lines[self._line].endswith("\r\n") else "\n"
        indent = " " * self.indent
        lines = "".join(f"{indent}{line}{end_of_line}" for line in text.split("\n"))
        if not self.is_block:
            rest = self._text[self._end :].split("\n", 1)[0].rstrip("\r")
            return Edit(self._start, self._line_after(self._end), f"|-{rest}{end_of_line}{lines}")
        header = self._text[self._start + 1 : self._line_after(self._start)]
        return Edit(self._start, self._end_of_block(), f"|{header}{lines}")

    def _line_after(self, offset: int) -> int:
        at = self._text.find("\n", offset)
        return len(self._text) if at < 0 else at + 1

    def _end_of_block(self) -> int:
        """The end of the last line of the block that is not blank."""
        first, last = self._line + 1, self._line
        for number, line in enumerate(self._lines[first:], first):
            if not line.strip(_BLANKS):
                continue
            if len(line) - len(line.lstrip(" ")) < self.indent:
                break
            last = number
        return sum(map(len, self._lines[: last + 1]))


def edited(text: str, edits: list[Edit]) -> str:
    """The text after all edits, which do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
