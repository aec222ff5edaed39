"""What is wrong with an object as it is written, by the schema of its kind, at the lines of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from policies.objects.fieldpath import render
from policies.schema.flaw import Flaw, Level
from policies.schema.schemas import Schemas
from webhook.files.manifest import Manifest

CODE = "schema"
"""The code of all flaws."""


class PlacedFlaw(NamedTuple):
    """A flaw in a file. path: the field. line, column: of it, from 1."""

    level: Level
    file: str
    line: int
    column: int
    path: str
    message: str
    remedy: str

    @property
    def text(self) -> str:
        """All of it in a line."""
        what = self.message if self.path in self.message else f"{self.path}: {self.message}"
        text = f"{self.file}:{self.line}:{self.column}: {what}"
        return f"{text} ({self.remedy})" if self.remedy else text


def finder(schemas: Schemas) -> Callable[[Manifest], Iterator[PlacedFlaw]]:
    """The function that finds the flaws of an object."""
    return lambda written: (_placed(written, flaw) for flaw in schemas.flaws(written.object))


def _placed(written: Manifest, flaw: Flaw) -> PlacedFlaw:
    line, column = written.places(flaw.path)
    return PlacedFlaw(flaw.level, written.file, line, column, render(flaw.path), flaw.message, flaw.remedy)
