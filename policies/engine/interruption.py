"""What interrupts an evaluation: a fact that has to be looked up, and the end of its time.

Decisions never wait. A key without a value raises `Missing`: the caller finds the value, enters it under its key, and
evaluates again. A value that could not be found is entered as a failure, so that only the rules that need it fail.
Decisions have no clock either: whoever runs the engine gives them one, and long work looks at it.

Missing              a value has to be found first; nothing absorbs it
FactUnavailable      a value could not be found; the rule that looks it up has failed
TimeLimitError       the time for the review is over: the rule under evaluation has failed
PostponedError       this process has spent enough time on the review, which is to be judged elsewhere

The last two are no Exceptions, so that nothing that guards against defects absorbs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class FactUnavailable(Exception):  # noqa: N818 - it names the state; the rule that asked is what failed
    """A value could not be found. The text says which one, and why."""


class Key(Generic[T_co]):
    """The key of a look-up, generic in the type of its value. Keys are immutable; keys for the same value are equal."""

    __slots__ = ()

    @property
    def missing(self) -> str:
        """The message that the value is not known."""
        raise NotImplementedError

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
    """The time for a review is over. rule, policy: those under evaluation, as far as they are known."""

    def __init__(self, message: str = "the time for the review is over") -> None:
        super().__init__(message)
        self.policy = self.rule = ""

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


def look(expired: Expired | None) -> None:
    """Look at the clock. Raises TimeLimitError."""
    if expired is not None and expired():
        raise TimeLimitError
