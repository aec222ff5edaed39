"""A cache of the objects of one kind, by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
T_contra = TypeVar("T_contra", contravariant=True)

Change = Literal["ADDED", "MODIFIED", "DELETED"]


class Sink(Protocol[T_contra]):
    """Receives the objects of a reflector."""

    def replace(self, objects: Sequence[T_contra]) -> None:
        """Replace all objects with those of a list."""

    def changed(self, change: Change, item: T_contra) -> None:
        """Handle an object that was added, modified or deleted."""


@runtime_checkable
class PageSink(Protocol[T_contra]):
    """Receives the objects of a reflector page by page, where there are too many to be held twice at a time."""

    def begin(self) -> None:
        """Begin a list. The one before it may not have come to its end."""

    def page(self, objects: Sequence[T_contra]) -> None:
        """Take a part of the list."""

    def complete(self) -> None:
        """Forget the objects that were not in the list."""

    def changed(self, change: Change, item: T_contra) -> None:
        """Handle an object that was added, modified or deleted."""


class Pages(Generic[T]):
    """Gives a sink a whole list, once its last page has come."""

    def __init__(self, sink: Sink[T]) -> None:
        self._sink = sink
        self._objects: list[T] = []

    def begin(self) -> None:
        """Begin a list."""
        self._objects = []

    def page(self, objects: Sequence[T]) -> None:
        """Keep a part of the list."""
        self._objects += objects

    def complete(self) -> None:
        """Replace all objects of the sink."""
        objects, self._objects = self._objects, []
        self._sink.replace(objects)

    def changed(self, change: Change, item: T) -> None:
        """Hand on an event."""
        self._sink.changed(change, item)


class Cache(Generic[T, K, V]):
    """Keeps a value for each object.

    key: returns the key of an object. value: returns the value of an object; None if it is not kept. notice: called
    after each change of a value, and after each list.
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
        """The current values by key. A later change may or may not show in this mapping."""
        return self._values

    @property
    def values(self) -> Sequence[V]:
        """The current values, as an immutable sequence, which is the same until something changes."""
        if self._sequence is None:
            self._sequence = tuple(self._values.values())
        return self._sequence

    def replace(self, objects: Sequence[T]) -> None:
        """Replace all values with those of a list."""
        entries = ((self._key(item), self._value(item)) for item in objects)
        self._values = {key: value for key, value in entries if value is not None}
        self._sequence = None
        self._notice()

    def changed(self, change: Change, item: T) -> None:
        """Handle one event. Most change no value: a Node, for example, writes its status every few minutes."""
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
