"""A finding: one thing that was looked at, how it was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

Level = Literal["ok", "warning", "problem", "unknown"]
T = TypeVar("T")

_SHOWN: Final = 3


class Diagnosis(Struct, frozen=True):
    """One thing that was looked at.

    check: what the look was about. level: `unknown` for what could not be read. where: the object or place.
    found: what is there, as a sentence without its full stop. remedy: what to do, empty where nothing is to be done.
    """

    check: str
    level: Level
    where: str
    found: str
    remedy: str = ""


class Unread(Struct, frozen=True):
    """Something that could not be read. right: the one that is missing, as `list nodes`, empty for other reasons."""

    reason: str = ""
    right: str = ""


Read: TypeAlias = T | Unread
"""What was read, or why it was not."""


def unseen(check: str, where: str, unread: Unread) -> Diagnosis:
    """The finding for what could not be read."""
    if unread.right:
        text = f"not checked: the current account may not {unread.right}"
        return Diagnosis(check, "unknown", where, text, f"use an account that may {unread.right}")
    return Diagnosis(check, "unknown", where, f"not checked: {unread.reason}", "try again")


def listed(names: Sequence[str], shown: int = _SHOWN) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 entry`, `2 entries`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
