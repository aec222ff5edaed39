"""Look-ups: the facts that a decision needs beyond its request, each under a key.

Decisions never wait. A key without a value raises `Missing`: the caller finds the value, enters it under its key, and
evaluates again. A value that could not be found is entered as a failure, so that only the rules that need it fail.

Missing              a value has to be found first; nothing absorbs it
FactUnavailable      a value could not be found; the rule that looks it up has failed
"""

from __future__ import annotations

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
