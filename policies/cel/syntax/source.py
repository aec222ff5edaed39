"""The text of an expression, and its issues as people read them.

`Source` turns offsets into places. `CompileError` shows every issue at its place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

NOWHERE = -1
"""The position of an issue with the expression as a whole."""

ISSUES_LIMIT = 100
"""The most issues that the reference reports."""

_LONGEST = 16_384  # bytes of a line that the reference shows
_WIDEST = 160  # longer lines are cut around the place


@dataclass(frozen=True, slots=True)
class Source:
    """The text of an expression. `line` and `column`: where it starts in its file.

    The column applies to every line, because all lines of a YAML block have the same indentation.
    """

    text: str
    name: str = "<input>"
    line: int = 1
    column: int = 1

    def location(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset in code points, both from 1; (-1, 0) for an issue without a place."""
        if offset < 0:
            return -1, 0
        line, column = self._within(offset)
        return self.line + line, self.column + column

    def within(self, offset: int) -> tuple[int, int]:
        """Line and column in the expression itself, as Kubernetes counts them."""
        if offset < 0:
            return -1, 0
        if not self.text:
            return 1, 0  # as the reference reports the end of an empty expression
        line, column = self._within(offset)
        return line + 1, column + 1

    def _within(self, offset: int) -> tuple[int, int]:
        return self.text.count("\n", 0, offset), offset - self.text.rfind("\n", 0, offset) - 1

    def line_at(self, offset: int) -> tuple[str, int]:
        """The line of an offset, and the number of characters before the offset in it."""
        column = self._within(offset)[1]
        first = offset - column
        last = self.text.find("\n", first)
        return self.text[first : len(self.text) if last < 0 else last], column

    def excerpt(self, offset: int) -> tuple[str, str]:
        """The line of an offset, and a line to print below it, with `^` under the place."""
        line, column = self.line_at(offset)
        before, after = line[:column], line[column:]
        if len(line) > _WIDEST:
            half = _WIDEST // 2
            before = before if len(before) <= half else f"…{before[-half:]}"
            after = after if len(after) <= half else f"{after[:half]}…"
        before = _printable(before)
        return f"{before}{_printable(after)}", f"{''.join(map(_blank, before))}^"


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem: the reference's message, its position, and our hint what to write instead."""

    position: int
    message: str
    hint: str = ""


class CompileError(Exception):
    """Kubernetes refuses the expression. Holds all issues in the order of their places.

    message: all that Kubernetes says where it names no place.
    """

    def __init__(self, source: Source, issues: Iterable[Issue], *, message: str | None = None) -> None:
        super().__init__(source, issues)
        self.source, self.message = source, message
        self.issues: tuple[Issue, ...] = tuple(sorted(issues, key=lambda issue: issue.position)[:ISSUES_LIMIT])

    def __str__(self) -> str:
        return "\n".join(map(self._show, self.issues))

    def reference(self) -> str:
        """The first line that Kubernetes prints."""
        if self.message is not None:
            return self.message
        issue = self.issues[0]
        line, column = self.source.within(issue.position)
        return f"ERROR: <input>:{line}:{column}: {issue.message}".split("\n", 1)[0]

    def full_reference(self) -> str:
        """The full text that Kubernetes prints: each issue, its line, and dots up to the place."""
        return self.message or "compilation failed: " + "\n".join(map(self._as_reference, self.issues))

    def _as_reference(self, issue: Issue) -> str:
        line, column = self.source.within(issue.position)
        head = f"ERROR: <input>:{line}:{column}: {issue.message}"
        if issue.position < 0:  # about the whole
            return head
        text, before = self.source.line_at(issue.position)
        if len(text.encode(errors="surrogatepass")) > _LONGEST:
            return head
        dots = "".join("." if character.isascii() else "\uff0e" for character in text[:before])
        mark = "^" if text[before : before + 1].isascii() else "\uff3e"
        shown = text.replace("\t", " ")
        return f"{head}\n | {shown}\n | {dots}{mark}"

    def _show(self, issue: Issue) -> str:
        if issue.position < 0:
            lines = [f"{self.source.name}: {issue.message}"]
        else:
            line, column = self.source.location(issue.position)
            lines = [f"{self.source.name}:{line}:{column}: {issue.message}", *self.source.excerpt(issue.position)]
        if issue.hint:
            lines.append(f"hint: {issue.hint}")
        return "\n".join(lines)


def _printable(text: str) -> str:
    """A text without characters that move the cursor."""
    return "".join(c if c.isprintable() or c == "\t" else " " for c in text)


def _blank(character: str) -> str:
    """Blanks of the width that a character has on a terminal."""
    if character == "\t":
        return character
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in {"W", "F"} else " "
