"""Paths to places in an object: `spec.tasks[*].template` in tables, `spec.tasks[0].template` in messages.

A step of a pattern is a key, `[*]` (every item of a list) or `.*` (every value of a map). A location is a pattern in
which an index or key replaces each wildcard. Both are written as Kubernetes writes field paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any


class Wildcard(Enum):
    """A step that stands for all items of a list or all values of a map."""

    ITEMS = "[*]"
    VALUES = ".*"


Step = str | Wildcard
Pattern = tuple[Step, ...]
Location = tuple[str | int, ...]

_FIRST = re.compile(r"([^.\[\]]+)")
_NEXT = re.compile(r"\[\*\]|\.([^.\[\]]+)")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


def parse(text: str) -> Pattern:
    """The pattern in a text; the empty text stands for the object itself.

    Raises ValueError with the position of the first part that is not a step.
    """
    steps: list[Step] = []
    position = 0
    while position < len(text):
        token = (_NEXT if position else _FIRST).match(text, position)
        if token is None:
            raise ValueError(
                f"{text!r} is not a field path from position {position} on; write it like spec.items[*].template"
            )
        key = token[1]
        steps.append(Wildcard.ITEMS if key is None else Wildcard.VALUES if key == "*" else key)
        position = token.end()
    return tuple(steps)


def locate(value: Any, pattern: Pattern, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Every place in a decoded JSON value that matches the pattern, with its value. Absent places are left out."""
    for index, step in enumerate(pattern):
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return
            value = value[step]
            at = (*at, step)
            continue
        children: Any = ()
        if step is Wildcard.ITEMS and isinstance(value, list):
            children = enumerate(value)
        elif step is Wildcard.VALUES and isinstance(value, dict):
            children = value.items()
        rest = pattern[index + 1 :]
        following = rest[0] if rest else None
        for key, child in children:
            # Most items lack the next key. This check saves a generator for each of them.
            if not isinstance(following, str) or (isinstance(child, dict) and following in child):
                yield from locate(child, rest, (*at, key))
        return
    yield at, value


def lookup(value: Any, location: Location) -> Any:
    """The value at a location; None if it is absent."""
    for step in location:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return None
            value = value[step]
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            return None
    return value


def render(location: Location | Pattern) -> str:
    """The path as messages show it: `metadata.annotations[example.org/x]`, `spec.containers[0].image`."""
    text = ""
    for step in location:
        if isinstance(step, Wildcard):
            text += step.value
        elif isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.match(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text
