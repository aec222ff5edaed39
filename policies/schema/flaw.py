"""What is wrong with an object, at which field, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import Location, render

Level = Literal["error", "warning"]
Place = tuple[Any, str | int] | None
"""A place while an object is judged: the one above and a step. It costs less than a path, which only a flaw needs."""

_NOT_FOUND = "Not found: "
_LONGEST = 1024


class Flaw(NamedTuple):
    """message: in the words of the API server, where it has some. level: an error is refused.

    remedy: what to do, empty if nobody knows better than the message.
    """

    path: Location
    message: str
    remedy: str = ""
    level: Level = "error"

    @property
    def text(self) -> str:
        """All of it in a line."""
        return in_line(render(self.path), self.message, self.remedy)


class Flaws:
    """The flaws of one object. decoding: of its form, for which the API server does not look at its values any more."""

    def __init__(self) -> None:
        self.decoding: list[Flaw] = []
        self.values: list[Flaw] = []

    @property
    def all(self) -> tuple[Flaw, ...]:
        """What the API server would say."""
        return tuple(self.decoding or self.values)

    def unknown(self, place: Place, known: Iterable[str], otherwise: str = "") -> None:
        """There is no such field."""
        path = location(place)
        near = closest(str(path[-1]), known)
        self.decoding.append(
            Flaw(path, f'unknown field "{render(path)}"', f"did you mean {near}?" if near else otherwise)
        )

    def mismatch(self, place: Place, expected: str, value: object, remedy: str = "") -> None:
        """A value has another type than its field."""
        self.decoding.append(Flaw(location(place), f"expected {expected}, got {shown(value)}", remedy))

    def undecodable(self, place: Place, problem: str, remedy: str = "") -> None:
        """A text cannot be read as what its field holds."""
        self.decoding.append(Flaw(location(place), problem, remedy))

    def required(self, place: Place, detail: str = "", remedy: str = "") -> None:
        """A field has no value."""
        self._add(place, f"Required value: {detail}" if detail else "Required value", remedy)

    def invalid(self, place: Place, value: object, problem: str, remedy: str = "") -> None:
        """A value is not allowed."""
        self._add(place, f"Invalid value: {quoted(value)}: {problem}", remedy)

    def unsupported(self, place: Place, value: object, supported: Iterable[str]) -> None:
        """A value is none of those that there are."""
        names = list(supported)
        listed = ", ".join(map(quoted, names))
        near = closest(str(value), names)
        remedy = f"did you mean {near}?" if near else ""
        self._add(place, f"Unsupported value: {quoted(value)}: supported values: {listed}", remedy)

    def forbidden(self, place: Place, problem: str, remedy: str = "") -> None:
        """A field may not be set here."""
        self._add(place, f"Forbidden: {problem}", remedy)

    def too_long(self, place: Place, limit: int) -> None:
        """A text has more bytes than the limit."""
        self._add(place, f"Too long: may not be more than {limit} bytes", "")

    def too_many(self, place: Place, count: int, limit: int) -> None:
        """A list or map has more items than the limit."""
        self._add(place, f"Too many: {count}: must have at most {limit} items", "")

    def duplicate(self, place: Place, value: object) -> None:
        """A value is there twice."""
        self._add(place, f"Duplicate value: {quoted(value)}", "")

    def missing(self, place: Place, value: object, known: Iterable[str] = ()) -> None:
        """A name names nothing."""
        near = closest(str(value), known)
        self._add(place, _NOT_FOUND + quoted(value), f"did you mean {near}?" if near else "")

    def found(self, place: Place, value: object) -> None:
        """A name below a place names something after all."""
        above, message = location(place), _NOT_FOUND + quoted(value)
        self.values = [f for f in self.values if f.message != message or f.path[: len(above)] != above]

    def forgive(self, field: str) -> None:
        """The values of a field of the object do not count."""
        self.values = [flaw for flaw in self.values if flaw.path[0] != field]

    def _add(self, place: Place, problem: str, remedy: str) -> None:
        self.values.append(Flaw(location(place), problem, remedy))


def in_line(path: str, message: str, remedy: str) -> str:
    """A flaw in a line; a message that names the field says it for both."""
    text = message if path in message else f"{path}: {message}"
    return f"{text} ({remedy})" if remedy else text


def below(place: Place, *steps: str | int) -> Place:
    """The place some steps below another one."""
    for step in steps:
        place = place, step
    return place


def location(place: Place) -> Location:
    """The path of a place."""
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def quoted(value: object) -> str:
    """A value as the API server's messages show it, but cut where nobody reads on."""
    text = _quoted(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{{','.join(f'{_quoted(str(key))}:{_quoted(item)}' for key, item in sorted(value.items()))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_quoted, value))}]"
    if value is None:
        return "null"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)


def shown(value: object) -> str:
    """What stands where something else was expected: a type, and what single values there are."""
    if isinstance(value, bool):
        return f"boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"number {value}"
    if isinstance(value, str):
        return "string"
    return "map" if isinstance(value, dict) else "list" if isinstance(value, list) else "null"
