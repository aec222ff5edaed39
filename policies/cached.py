"""Properties that are computed once, without the lock of functools' own.

Until Python 3.12 that lock is one for all instances of a class. A process that forks while another thread computes such
a property leaves it locked in its child for ever, and there every instance waits for it: a review in a child process
would fail for want of time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - as in functools
    """A property whose value is kept in the instance. Two threads that ask at once may both compute it."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the attribute's name, under which the value is kept."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """The value, which is asked for here only if it is not in the instance yet."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
