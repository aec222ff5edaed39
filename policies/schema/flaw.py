"""What is wrong with an object, at which field, and what to do; and the forms of names, by which a text is judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from policies.golang.strconv import utf8
from policies.kubernetes.name import (
    Format,
    dns1035_label,
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
    must_match,
    too_long,
)
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import Location, render

Level = Literal["error", "warning"]
Place = tuple[Any, str | int] | None
"""A place while an object is judged: the one above and a step. It costs less than a path, which only a flaw needs."""

_NOT_FOUND = "Not found: "
_LONGEST = 1024


# As templates of shells, of Helm and of pages have them.
_PLACEHOLDER = re.compile(r"\$\{?[A-Za-z_]|\{\{|<[A-Za-z][\w .-]*>|\$\(")


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

    def required(self, place: Place, detail: str = "", remedy: str = "", *, warns: bool = False) -> None:
        """A field has no value. warns: whether something else may give it one before the API server looks."""
        text = f"Required value: {detail}" if detail else "Required value"
        if warns:
            remedy = "unless a webhook of the kind fills it in, as its description says"
        self.values.append(Flaw(location(place), text, remedy, "warning" if warns else "error"))

    def misformed(self, form: Format, place: Place, text: str) -> None:
        """A text has not the form that it should have, if so."""
        for problem in form(text):
            self.invalid(place, text, problem)

    def invalid(self, place: Place, value: object, problem: str, remedy: str = "") -> None:
        """A value is not allowed."""
        if not remedy and _PLACEHOLDER.search(str(value)):
            remedy = "it looks like a placeholder: fill it in, as with envsubst or helm template"
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

    def retract(self, place: Place, value: object) -> None:
        """Take back that a name below a place names nothing: it does after all."""
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


_CACHED = 8_192
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONFIG_KEY_RULE: Final = must_match(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY, "key.name", "KEY_NAME", "key-name",
)  # fmt: skip


def _config_key(text: str) -> list[str]:
    """The problems of a key of a ConfigMap or a Secret (IsConfigMapKey)."""
    problems = too_long(utf8(text), 253, "characters")
    if not re.fullmatch(_CONFIG_KEY, text):
        problems.append(_CONFIG_KEY_RULE)
    if text in (".", "..") or text.startswith(".."):
        problems.append(f"must not be '{text}'" if text in (".", "..") else "must not start with '..'")
    return problems


def _port_name(text: str) -> list[str]:
    """The problems of the name of a port (IsValidPortName)."""
    problems = too_long(utf8(text), 15, "characters")
    if not re.fullmatch("[-a-z0-9]+", text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text[:1] == "-" or text[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


FORMATS: Mapping[str, Format] = {
    "absolute-path": lambda text: [] if text.startswith("/") else ["must be an absolute path"],
    "config-key": lru_cache(_CACHED)(_config_key),
    "dns-1035-label": lru_cache(_CACHED)(dns1035_label),
    "dns-label": lru_cache(_CACHED)(dns_label),
    "dns-subdomain": lru_cache(_CACHED)(dns_subdomain),
    "label-key": lru_cache(_CACHED)(label_key),
    "label-value": lru_cache(_CACHED)(label_value),
    "port-name": lru_cache(_CACHED)(_port_name),
}
"""The forms of texts by name. The same texts come again and again, so that the problems of most are kept."""
