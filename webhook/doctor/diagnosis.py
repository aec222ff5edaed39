"""A diagnosis: one thing that was checked, its state, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

Level = Literal["ok", "warning", "problem", "unknown"]
T = TypeVar("T")

_SHOWN: Final = 3


class Diagnosis(Struct, frozen=True):
    """One thing that was checked.

    check: the name of the check. level: `unknown` if it could not be read. where: the object or place.
    found: its state, as a sentence without a full stop. remedy: what to do; empty if there is nothing to do.
    """

    check: str
    level: Level
    where: str
    found: str
    remedy: str = ""


class Unread(Struct, frozen=True):
    """Something that could not be read. right: the missing right, such as `list nodes`; empty for other reasons."""

    reason: str = ""
    right: str = ""


Read: TypeAlias = T | Unread
"""What was read, or why it could not be read."""


def unseen(check: str, where: str, unread: Unread) -> Diagnosis:
    """The diagnosis for something that could not be read."""
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
