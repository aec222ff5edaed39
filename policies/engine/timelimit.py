"""The time for a review. Decisions have no clock: whoever runs the engine gives them one, and long work looks at it.

TimeLimitError       the time for the review is over: the rule under evaluation has failed
PostponedError       this process has spent enough time on the review, which is to be judged elsewhere

Neither is an Exception, so that nothing that guards against defects absorbs them.
"""

from __future__ import annotations

from collections.abc import Callable

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
