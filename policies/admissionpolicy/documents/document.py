"""A document as a reader of files hands it over: a decoded value, and where in its file each part of it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]
"""Keys and indexes from the top of a document to a value in it."""

Place = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object, or a list of objects, of one file.

    name: the file. line: where the document begins. places: where the value at a path stands, or its nearest parent
    that is there; for a text, its first character, behind the quote or on the first line of a block (yamlscalar.py).
    keys: where the key of a path stands; None where the reader does not know. inside: where the character at an offset
    of the text at a path stands; None where all lines of a text are as in the file, equally indented. duplicates: keys
    that are there a second time, if the reader does not refuse them itself.
    """

    value: Any
    name: str
    line: int = 1
    places: Callable[[Path], Place]
    keys: Callable[[Path], Place] | None = None
    inside: Callable[[Path, int], Place] | None = None
    duplicates: Sequence[Path] = field(default=())

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Where a value (or its key) stands."""
        return self.keys(path) if key and self.keys is not None else self.places(path)

    def place_inside(self, path: Path, offset: int) -> Place | None:
        """Where a character of a text stands; None where the reader does not know."""
        return None if self.inside is None else self.inside(path, offset)

    def at(self, *steps: str | int) -> Document:
        """A part of it as a document of its own, such as an item of a List."""
        value = self.value
        for step in steps:
            value = value[step]
        places, keys, inside = self.places, self.keys, self.inside
        return Document(
            value=value,
            name=self.name,
            line=places(steps)[0],
            places=lambda path: places((*steps, *path)),
            keys=None if keys is None else lambda path: keys((*steps, *path)),
            inside=None if inside is None else lambda path, offset: inside((*steps, *path), offset),
            duplicates=tuple(path[len(steps) :] for path in self.duplicates if path[: len(steps)] == steps),
        )

    def outline(self, paths: Iterable[Path]) -> Document:
        """Where the fields at some paths stand, and nothing else of it: the tree of a file takes much more room."""
        first = (self.line, 1)
        places = {path: self.places(path) for path in paths}
        keys = {path: self.place(path, key=True) for path in places}
        return Document(
            value=None,
            name=self.name,
            line=self.line,
            places=lambda path: places.get(path, first),
            keys=lambda path: keys.get(path, first),
        )
