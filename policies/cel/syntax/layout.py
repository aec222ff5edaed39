"""Text that goes on one line if it fits, and is broken at known places if not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

STEP = 2
"""The columns by which a part is indented."""


class Line:
    """A place where text may be broken. `flat`: what stands there otherwise. `deeper`: indentation of what follows."""

    __slots__ = ("deeper", "flat")

    def __init__(self, flat: str = "", *, deeper: bool = True) -> None:
        self.flat = flat
        self.deeper = STEP if deeper else 0


class Group:
    """Parts that are broken at all their lines or at none.

    hangs: it is indented if it is inside of another group. fills: it is broken at its first and last line, and else
    only where the next part does not fit.
    """

    __slots__ = ("fills", "flat", "hangs", "parts")

    def __init__(self, *parts: Part, hangs: bool = False, fills: bool = False) -> None:
        self.parts = parts
        self.fills = fills
        self.hangs = STEP if hangs else 0
        self.flat: str = "".join(part if isinstance(part, str) else part.flat for part in parts)


Part = str | Line | Group


def laid_out(group: Group, width: int) -> str:
    """The text with lines of at most `width` columns, as far as there are places to break it."""
    page = _Page(width)
    page.write(group, 0, 0)
    return "".join(page.texts)


class _Page:
    """The text written so far, and the column where it ends."""

    def __init__(self, width: int) -> None:
        self.texts: list[str] = []
        self._width, self._column = width, 0

    def write(self, group: Group, indent: int, rest: int) -> None:
        """Write a group. `rest`: the width of what has to follow on its last line."""
        if self._column + len(group.flat) + rest <= self._width:
            self._add(group.flat)
            return
        here = indent
        for index, part in enumerate(group.parts):
            if isinstance(part, str):
                self._add(part)
            elif isinstance(part, Line):
                here = indent + part.deeper
                self._break(part, here, _head(group.parts[index + 1 :])[0] if group.fills and part.flat else None)
            else:
                after = _head(group.parts[index + 1 :])
                self.write(part, here + part.hangs, after[0] if after[1] else after[0] + rest)

    def _break(self, line: Line, indent: int, following: int | None) -> None:
        """Break a line. `following`: the width of what comes next, if it may stay on the line."""
        if following is not None and self._column + len(line.flat) + following <= self._width:
            self._add(line.flat)
            return
        self.texts.append("\n" + " " * indent)
        self._column = indent

    def _add(self, text: str) -> None:
        self.texts.append(text)
        self._column += len(text)


def _head(parts: Sequence[Part]) -> tuple[int, bool]:
    """The width of parts up to the first place where they may be broken, and whether there is one."""
    width = 0
    for leaf in chain.from_iterable(map(_leaves, parts)):
        if isinstance(leaf, Line):
            return width, True
        width += len(leaf)
    return width, False


def _leaves(part: Part) -> Iterator[str | Line]:
    if isinstance(part, Group):
        yield from chain.from_iterable(map(_leaves, part.parts))
    else:
        yield part
