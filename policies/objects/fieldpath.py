"""Paths to places in an object: `spec.tasks[*].template` in tables, `spec.tasks[0].template` in messages.

A pattern's step is a key, `[*]` (every item of a list) or `.*` (every value of a map). A location is a pattern with
every wildcard replaced by the index or key that was found. They are written as Kubernetes writes a field path.
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
    """Read a pattern; the empty text is the object itself.

    Raises ValueError with the position of what is not a step.
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
    """Every place in a decoded JSON value that the pattern names, with what is there; absent places yield nothing."""
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
            # Most items lack what comes next; to see that here saves a generator for each.
            if not isinstance(following, str) or (isinstance(child, dict) and following in child):
                yield from locate(child, rest, (*at, key))
        return
    yield at, value


def lookup(value: Any, location: Location) -> Any:
    """What stands at a location, None where nothing does."""
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
    """The path as people read it: `metadata.annotations[example.org/x]`, `spec.containers[0].image`."""
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
