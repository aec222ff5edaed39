"""Patterns of files to leave out, as in a .gitignore: the last one that matches counts, and `!` takes back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

NAME = ".cksignore"
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class Pattern(NamedTuple):
    """A pattern. base: the folder that it is relative to. folders: whether it is about folders only."""

    base: Path
    expression: re.Pattern[str]
    excludes: bool
    folders: bool

    def matches(self, path: Path, *, folder: bool) -> bool:
        """Whether the pattern is about a path."""
        if (self.folders and not folder) or not path.is_relative_to(self.base):
            return False
        return self.expression.fullmatch(path.relative_to(self.base).as_posix()) is not None


def pattern(text: str, base: Path) -> Pattern | None:
    """The pattern on a line; None for a blank line or a comment.

    One with a slash before its end is relative to the base; any other one is about names in all folders below.
    """
    line = text.strip()
    if not line or line.startswith("#"):
        return None
    excludes, name = not line.startswith("!"), line.removeprefix("!")
    anywhere = "" if "/" in name.rstrip("/") else "(?:.*/)?"
    tokens = _TOKEN.findall(name.strip("/"))
    expression = anywhere + "".join(_MEANING.get(token) or re.escape(token) for token in tokens)
    return Pattern(base, re.compile(expression), excludes, name.endswith("/"))


def of_folder(folder: Path) -> list[Pattern]:
    """The patterns in the .cksignore of a folder, if there is one. Raises OSError, UnicodeDecodeError."""
    file = folder / NAME
    if not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    return [made for line in lines if (made := pattern(line, folder)) is not None]


def excluded(path: Path, patterns: Iterable[Pattern], *, folder: bool) -> bool:
    """Whether a path is left out."""
    verdict = False
    for each in patterns:
        if each.matches(path, folder=folder):
            verdict = each.excludes
    return verdict
