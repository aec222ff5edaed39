"""Which known name a misspelt one is most like: what people read behind `did you mean`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that one is most like, whatever their case; empty where none is near."""
    by_letters = {other.lower(): other for other in known}
    return next((by_letters[near] for near in get_close_matches(name.lower(), by_letters, n=1)), "")


def closest_first(name: str, known: Iterable[str]) -> list[str]:
    """The known names, first those that one is most like, the others in their order."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names)
    return [*near, *(other for other in names if other not in near)]


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint for a name that is not known; `otherwise`: the hint where no known name is near."""
    near = closest(name, known)
    return f"did you mean {near}?" if near else otherwise
