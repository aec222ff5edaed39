"""What interrupts an evaluation: a fact that has to be looked up, and the end of its time.

Decisions never wait. A key without a value raises `Missing`: the caller finds the value, enters it under its key, and
evaluates again. A value that could not be found is entered as a failure, so that only the rules that need it fail.
Decisions have no clock either: whoever runs the engine gives them one, and long work looks at it.

Missing              a value has to be found first; nothing absorbs it
FactUnavailable      a value could not be found; the rule that looks it up has failed
TimeLimitError       the time for the review is over: the rule under evaluation has failed
PostponedError       this process has spent enough time on the review, which is to be judged elsewhere

The last two are no Exceptions, so that nothing that guards against defects absorbs them.

A call that looks at no clock, such as a search or a comparison, says beforehand what it may take (`spend`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import local
from typing import Any, ClassVar, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class FactUnavailable(Exception):  # noqa: N818 - it names the state; the rule that asked is what failed
    """A value could not be found. The text says which one, and why."""


class Key(Generic[T_co]):
    """The key of a look-up, generic in the type of its value. Keys are immutable; keys for the same value are equal."""

    __slots__ = ()

    UNKNOWN: ClassVar[str]
    """The message that the value is not known, in which {0} is the key."""

    @property
    def missing(self) -> str:
        """The message that the value is not known."""
        return self.UNKNOWN.format(self)

    def failure(self, reason: str) -> T_co | FactUnavailable:
        """The entry for a value that cannot be found."""
        return FactUnavailable(f"{self.missing}, and {reason}")

    def without_cluster(self) -> T_co | FactUnavailable:
        """The entry without a cluster."""
        return self.failure("there is no cluster to ask")


class Missing(Exception):  # noqa: N818 - a request for a look-up, not an error
    """The value of a key has to be found before the evaluation can go on. key: the key that was looked up."""

    def __init__(self, key: Key[Any]) -> None:
        super().__init__(key.missing)
        self.key: Any = key


Expired = Callable[[], bool]
"""Returns whether the time is over; may raise a TimeLimitError of its own instead."""


class TimeLimitError(BaseException):
    """The time for a review is over. rule, policy, place (`file:line`): those under evaluation, as far as known."""

    def __init__(self, message: str = "the time for the review is over") -> None:
        super().__init__(message)
        self.policy = self.rule = self.place = ""

    def blame(self, policy: str) -> None:
        """Name the policy under evaluation, unless a more exact name is known."""
        self.policy = self.policy or policy


class PostponedError(TimeLimitError):
    """The review has to be judged elsewhere: it has had its time here."""


class OvertimeError(Exception):
    """A rule was not evaluated to its end in the time of its review: a TimeLimitError as people see it."""


class SkippedPolicyError(Exception):
    """A policy is skipped for a while, because it was too slow again and again."""

    def __init__(self) -> None:
        super().__init__("it was too slow several times, so it is not evaluated for a while")


class Meter(local):
    """What is evaluated in a thread, for calls that look at no clock.

    expired: the clock of the review. longest: the microseconds that one call may take; infinite if nobody waits.
    """

    expired: Expired | None = None
    longest = inf


METER = Meter()
_BETWEEN_LOOKS = 2_000  # microseconds
_spent = 0.0  # since the last look, in all threads: it only says when to look


def spend(work: float) -> None:
    """Say how many microseconds the next call may take. Raises PostponedError if that is too long; looks at the clock.

    Reckoned for a slow processor and a hostile input: most calls take a small part of it.
    """
    global _spent  # noqa: PLW0603 - nothing else is as fast, and calls are counted that take a microsecond
    _spent += work
    if _spent > _BETWEEN_LOOKS:
        _spent = 0.0
        if work > METER.longest:
            raise PostponedError
        look(METER.expired)


def look(expired: Expired | None) -> None:
    """Look at the clock. Raises TimeLimitError."""
    if expired is not None and expired():
        raise TimeLimitError
