"""A document as a file reader returns it: a decoded value with the place of each part in the file; and its problems.

A problem has a hint of our own and the message of the API server (pkg/util/validation/field/errors.go of
k8s.io/apimachinery).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import getitem
from typing import Any, Literal

from policies.golang.strconv import quote
from policies.kubernetes.spelling import to_json

Path = tuple[str | int, ...]
"""Keys and indexes from the root of a document to a value."""

Place = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object, or a list of objects, from one file.

    name: the file. line: the first line of the document. places: the place of the value at a path, or of its nearest
    existing parent; for a string, the place of its first character, after the quote or on the first line of a block
    (yamltext.py). keys: the place of the key at a path; None if the reader does not know it. inside: the place of the
    character at an offset of the string at a path; None if all lines of a string are as in the file, with the same
    indentation. duplicates: the paths of duplicate keys, if the reader does not reject them itself.
    prefix: the path of the object in what the reader knows the places of.
    """

    value: Any
    name: str
    line: int = 1
    places: Callable[[Path], Place]
    keys: Callable[[Path], Place] | None = None
    inside: Callable[[Path, int], Place] | None = None
    duplicates: Sequence[Path] = ()
    prefix: Path = ()

    def place(self, path: Path, *, key: bool = False) -> Place:
        """The place of a value, or of its key."""
        places = self.keys if key and self.keys is not None else self.places
        return places((*self.prefix, *path))

    def place_inside(self, path: Path, offset: int) -> Place | None:
        """The place of a character of a string; None if the reader does not know it."""
        return None if self.inside is None else self.inside((*self.prefix, *path), offset)

    def at(self, *steps: str | int) -> Document:
        """A part of the document, such as an item of a List, as a document of its own."""
        return replace(
            self,
            value=reduce(getitem, steps, self.value),
            line=self.place(steps)[0],
            duplicates=tuple(path[len(steps) :] for path in self.duplicates if path[: len(steps)] == steps),
            prefix=(*self.prefix, *steps),
        )

    def outline(self, paths: Iterable[Path]) -> Document:
        """A document with only the places of some paths, which needs much less memory than the tree of a file."""
        places = {path: self.place(path) for path in paths}
        keys = {path: self.place(path, key=True) for path in places}
        return Document(
            value=None,
            name=self.name,
            line=self.line,
            places=partial(_place, places, (self.line, 1)),
            keys=partial(_place, keys, (self.line, 1)),
        )


def _place(places: Mapping[Path, Place], other: Place, path: Path) -> Place:
    return places.get(path, other)


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of one document.

    path: the field as the API server names it, empty for the whole document. message: the API server's message about
    that field. excerpt: for an expression, each issue with its line and a caret; it replaces the message. An error
    makes the document unusable, a warning does not.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    excerpt: str = ""
    severity: Severity = "error"

    @property
    def text(self) -> str:
        """`spec.failurePolicy: Unsupported value: "Foo": ...`, as the API server prints it."""
        return f"{self.path}: {self.message}" if self.path else self.message

    def __str__(self) -> str:
        kind = "" if self.severity == "error" else f"{self.severity}: "
        what = f"{self.path}: {self.excerpt}" if self.excerpt else self.text
        text = f"{self.file}:{self.line}:{self.column}: {kind}{what}"
        return f"{text}\nhint: {self.hint}" if self.hint else text


class Report:
    """Collects the problems of one document in the order in which they are found."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self._unread: set[Path] = set()

    @property
    def failed(self) -> bool:
        """Whether any of the problems is an error."""
        return any(problem.severity == "error" for problem in self.problems)

    def hide(self, path: Path) -> None:
        """Report nothing more about a value that could not be decoded, because it would only be a consequence."""
        self._unread.add(path)

    def forget_repetitions(self) -> None:
        """Keep of problems with the same field and message the first one."""
        firsts = {(problem.path, problem.message): problem for problem in reversed(self.problems)}
        self.problems = [problem for problem in self.problems if firsts[problem.path, problem.message] is problem]

    def hidden(self, path: Path) -> bool:
        """Whether a value, or one that contains it, could not be decoded."""
        return any(path[:length] in self._unread for length in range(1, len(path) + 1))

    def continued(self, document: Document | None = None) -> Report:
        """A new report, of an outline of the document, if given, that begins with the problems so far."""
        other = Report(document or self.document)
        other.problems, other._unread = list(self.problems), self._unread
        return other


@dataclass(frozen=True, slots=True)
class Spot:
    """A field of a document, at which problems are noted. value: decoded; None for a field that is absent."""

    report: Report
    path: Path = ()
    value: Any = None

    def child(self, *steps: str | int) -> Spot:
        """A field below it."""
        value = self.value
        for step in steps:
            try:
                value = value[step]
            except (LookupError, TypeError):
                value = None
        return Spot(self.report, (*self.path, *steps), value)

    def items(self) -> Iterator[Spot]:
        """The items of a list; none if it is absent."""
        return (self.child(index) for index in range(len(self.value or ())))

    @property
    def is_hidden(self) -> bool:
        """Whether the value, or one that contains it, could not be decoded."""
        return self.report.hidden(self.path)

    def fault(
        self, message: str, hint: str = "", *, path: str | None = None, key: bool = False, severity: Severity = "error"
    ) -> None:
        """Note a problem with the field. `path`: if the API server's message names another field."""
        if self.is_hidden:
            return
        line, column = self.report.document.place(self.path, key=key)
        self.report.problems.append(
            Problem(
                file=self.report.document.name,
                line=line,
                column=column,
                path=show(self.path) if path is None else path,
                message=message,
                hint=hint,
                severity=severity,
            )
        )

    def warn(self, message: str, hint: str = "", *, key: bool = False) -> None:
        """Note something that is valid, but probably not intended."""
        self.fault(message, hint, key=key, severity="warning")


def show(path: Path) -> str:
    """A path as the API server's messages write it: `spec.validations[0].message`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


@dataclass(frozen=True, slots=True)
class Word:
    """A value of an enumeration of the API. Messages print it as JSON, but other strings as in Go."""

    text: str


def required(detail: str = "") -> str:
    """The message for a value that is missing or empty."""
    return f"Required value: {detail}" if detail else "Required value"


def invalid(value: Any, detail: str) -> str:
    """The message for a value of the right type that is not valid."""
    return f"Invalid value: {_shown(value)}: {detail}" if detail else f"Invalid value: {_shown(value)}"


def duplicate(value: Any) -> str:
    """The message for a value that occurs twice."""
    return f"Duplicate value: {_shown(value)}"


def not_found(value: str) -> str:
    """The message for the name of something that does not exist."""
    return f"Not found: {_shown(value)}"


def unsupported(value: str, allowed: Sequence[str]) -> str:
    """The message for a value that is not in an enumeration."""
    return f"Unsupported value: {_shown(Word(value))}: supported values: {', '.join(map(quote, allowed))}"


def _shown(value: Any) -> str:
    return quote(value) if isinstance(value, str) else to_json(value.text if isinstance(value, Word) else value)
