"""What is known of the objects of one kind, by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, Protocol, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
T_contra = TypeVar("T_contra", contravariant=True)

Change = Literal["ADDED", "MODIFIED", "DELETED"]


class Sink(Protocol[T_contra]):
    """Where the objects go."""

    def replace(self, objects: Sequence[T_contra]) -> None:
        """These are all there are."""

    def changed(self, change: Change, item: T_contra) -> None:
        """One was added, modified or deleted."""


class Cache(Generic[T, K, V]):
    """The part of each object that is of interest; objects without one are not kept.

    key: where an object is found. value: what is kept of it, None for nothing. notice: called after each change of
    what is kept, and after each list.
    """

    def __init__(
        self, key: Callable[[T], K], value: Callable[[T], V | None], notice: Callable[[], None] = lambda: None
    ) -> None:
        self._key = key
        self._value = value
        self._notice = notice
        self._values: dict[K, V] = {}
        self._sequence: tuple[V, ...] | None = None

    @property
    def by_key(self) -> Mapping[K, V]:
        """All that is known now; a later change shows in it or in its successor."""
        return self._values

    @property
    def values(self) -> Sequence[V]:
        """All that is known now, and stays as it is; the same one until something changes."""
        if self._sequence is None:
            self._sequence = tuple(self._values.values())
        return self._sequence

    def replace(self, objects: Sequence[T]) -> None:
        """Take a whole list."""
        entries = ((self._key(item), self._value(item)) for item in objects)
        self._values = {key: value for key, value in entries if value is not None}
        self._sequence = None
        self._notice()

    def changed(self, change: Change, item: T) -> None:
        """Take one event. Most of them change nothing here: a Node writes its status every few minutes."""
        key = self._key(item)
        value = None if change == "DELETED" else self._value(item)
        if self._values.get(key) == value:
            return
        if value is None:
            del self._values[key]
        else:
            self._values[key] = value
        self._sequence = None
        self._notice()
