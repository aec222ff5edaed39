"""A document as a file reader returns it: a decoded value, and the place of each part in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]
"""Keys and indexes from the root of a document to a value."""

Place = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object, or a list of objects, from one file.

    name: the file. line: the first line of the document. places: the place of the value at a path, or of its nearest
    existing parent; for a string, the place of its first character, after the quote or on the first line of a block
    (yamlscalar.py). keys: the place of the key at a path; None if the reader does not know it. inside: the place of the
    character at an offset of the string at a path; None if all lines of a string are as in the file, with the same
    indentation. duplicates: the paths of duplicate keys, if the reader does not reject them itself.
    """

    value: Any
    name: str
    line: int = 1
    places: Callable[[Path], Place]
    keys: Callable[[Path], Place] | None = None
    inside: Callable[[Path, int], Place] | None = None
    duplicates: Sequence[Path] = field(default=())

    def place(self, path: Path, *, key: bool = False) -> Place:
        """The place of a value, or of its key."""
        return self.keys(path) if key and self.keys is not None else self.places(path)

    def place_inside(self, path: Path, offset: int) -> Place | None:
        """The place of a character of a string; None if the reader does not know it."""
        return None if self.inside is None else self.inside(path, offset)

    def at(self, *steps: str | int) -> Document:
        """A part of the document, such as an item of a List, as a document of its own."""
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
        """A document with only the places of some paths, which needs much less memory than the tree of a file."""
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
