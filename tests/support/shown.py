"""The commands in blocks of Markdown. A command begins with `$ `, and its output stands below it.

In the output, a line of three dots stands for any lines, and `…` for any text in a line.
"""

from __future__ import annotations

import re

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_AHEAD = ("2026-12-31", "2999-12-31")

Block = list[tuple[str, str]]
"""Commands, each with what stands below it."""


def ahead(text: str) -> str:
    """Return a text whose exceptions hold whenever this is run."""
    return text.replace(*_AHEAD)


def blocks(text: str) -> list[Block]:
    """Return the blocks of commands of a page."""
    return [_commands(block) for block in _BLOCK.findall(ahead(text))]


def is_as_shown(printed: str, shown: str) -> bool:
    """Tell whether a command printed what a page shows of it."""
    lines = re.split(r"^ *\.\.\.\n", shown, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*".join(".*".join(map(re.escape, part.split("…"))) for part in lines)
    return re.fullmatch(pattern, printed) is not None


def _commands(block: str) -> Block:
    parts = [part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(line, output) for line, _, output in parts]
