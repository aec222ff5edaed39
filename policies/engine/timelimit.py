"""The time for a review. Decisions have no clock: whoever runs the engine gives them one, and long work looks at it.

TimeLimitError       the time for the review is over: the rule under evaluation has failed
PostponedError       this process has spent enough time on the review, which is to be judged elsewhere

Neither is an Exception, so that nothing that guards against defects absorbs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

Expired = Callable[[], bool]
"""Returns whether the time is over; may raise PostponedError instead."""


class TimeLimitError(BaseException):
    """The time for a review is over. policy: the one under evaluation, as far as it is known."""

    def __init__(self, policy: str = "") -> None:
        super().__init__("the time for the review is over")
        self.policy = policy


class PostponedError(TimeLimitError):
    """The review has to be judged elsewhere: it has had its time here."""


class OvertimeError(Exception):
    """A rule was not evaluated to its end in the time of its review. It is what TimeLimitError becomes for people."""


class SlowPolicyError(Exception):
    """A policy is skipped for a while, because it took too long again and again."""


def look(expired: Expired | None) -> None:
    """Look at the clock. Raises TimeLimitError."""
    if expired is not None and expired():
        raise TimeLimitError


def blame(error: TimeLimitError, policy: str) -> NoReturn:
    """Raise the error again, with the innermost policy that is known."""
    error.policy = error.policy or policy
    raise error
