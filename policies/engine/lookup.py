"""Look-ups: what a decision has to know beyond its request, each thing under a key.

Decisions never wait. A key without a value is raised as `Missing`: whoever evaluates finds the value, enters it under
its key, and evaluates again. What could not be found is entered as well, so that the rule that needs it fails, and no
other.

Missing              a value has to be found first; nothing absorbs it
FactUnavailable      a value could not be found; the rule that looks it up has failed
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class FactUnavailable(Exception):  # noqa: N818 - it names the state; the rule that asked is what failed
    """A value could not be found. The text says which one, and why."""


class Key(Generic[T_co]):
    """What is looked up; the type is that of its value. Keys are immutable, and equal where they ask the same."""

    __slots__ = ()

    @property
    def missing(self) -> str:
        """Says that the value is not known."""
        raise NotImplementedError

    def failure(self, reason: str) -> T_co | FactUnavailable:
        """What is entered where the value cannot be found."""
        return FactUnavailable(f"{self.missing}, and {reason}")

    def without_cluster(self) -> T_co | FactUnavailable:
        """What is entered where there is no cluster."""
        return self.failure("there is no cluster to ask")


class Missing(Exception):  # noqa: N818 - a request for a look-up, not an error
    """The value of a key has to be found before the evaluation can be made. key: of whatever kind was looked up."""

    def __init__(self, key: Key[Any]) -> None:
        super().__init__(key.missing)
        self.key: Any = key
