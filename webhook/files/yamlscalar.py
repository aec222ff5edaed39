"""Finds the places of a YAML scalar's characters in its file, in spite of quotes, escapes and block style.

The caller must know where the scalar's node begins (PyYAML's `start_mark`). Source: the YAML 1.1 specification,
chapters 8 and 9. Folded lines and escapes are found by reading the file in parallel with the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from policies.admissionpolicy.documents.document import Place

_BLANKS = " \t\r"
_LAST_OF_16_BITS = 0xFFFF
_ESCAPES = {"x": 4, "u": 6, "U": 10}


def place(lines: Sequence[str], line: int, column: int) -> Place:
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


def inside(lines: Sequence[str], line: int, column: int, value: str, offset: int) -> Place:
    """The place of the character at an offset of a scalar's value. line, column: of its node, both from 1."""
    style = _style(lines, line, column)
    number, at = place(lines, line, column)
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
            (self._ended() and character not in (" ", "\n")) or self._continued()
        ):
            self._break()

    @property
    def _text(self) -> str:
        text = self.lines[self.number] if self.number < len(self.lines) else ""
        return text.rstrip("\r\n") if self.style == ">" else text.rstrip(_BLANKS)

    def _ended(self) -> bool:
        return self.at >= len(self._text)

    def _continued(self) -> bool:
        """Whether a backslash in double quotes joins the line with the next one."""
        return self.style == '"' and self._text[self.at :] == "\\"

    def _break(self) -> None:
        self.number += 1
        text = self._text
        self.at = min(self.indent, len(text)) if self.style == ">" else len(text) - len(text.lstrip(_BLANKS))
