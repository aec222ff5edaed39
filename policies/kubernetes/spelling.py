"""The words of messages: the known name closest to a misspelt one, and JSON as the API server writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any

# The comparison costs the product of both lengths. What is longer is no misspelt name, and who has more knows them.
LONGEST, MOST = 256, 1000


def closest(name: str, known: Iterable[str]) -> str:
    """The known name closest to `name`, without regard to case; empty if none is close."""
    if len(name) > LONGEST:
        return ""
    by_letters = {other.lower(): other for other in islice(known, MOST)}
    return next((by_letters[near] for near in get_close_matches(name.lower(), by_letters, n=1)), "")


def closest_first(name: str, known: Iterable[str]) -> list[str]:
    """The known names: first those close to `name`, then the others in their order."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names) if len(name) <= LONGEST else []
    return [*near, *(other for other in names if other not in near)]


def with_article(noun: str) -> str:
    """The noun with `a` or `an` before it."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint for an unknown name. `otherwise`: the hint if no known name is close."""
    near = closest(name, known)
    return f"did you mean {near}?" if near else otherwise


def to_json(value: Any) -> str:
    """The value as JSON on one line. Characters that a browser could misread are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def json_name(value: Any) -> str:
    """The name of a JSON value in messages of Go's decoder."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
