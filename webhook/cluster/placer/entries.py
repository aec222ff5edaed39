"""Brings the objects of a reflector into something that keeps them one by one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import structlog

from webhook.cluster.api.objects import Object
from webhook.cluster.watches.reflector import Change

T = TypeVar("T", bound=Object)
K = TypeVar("K", bound=Hashable)


class Entries(Generic[T, K]):
    """A sink that puts and removes single objects, so that no list is held as a whole.

    key: identifies an object. put: takes an object that is new or has changed; may raise ValueError. remove: takes the
    key of an object that is gone.
    """

    def __init__(self, key: Callable[[T], K], put: Callable[[T], object], remove: Callable[[K], object]) -> None:
        self._key = key
        self._put = put
        self._remove = remove
        self._keys: set[K] = set()
        self._listed: set[K] = set()

    def begin(self) -> None:
        """Begin a list."""
        self._listed = set()

    def page(self, objects: Sequence[T]) -> None:
        """Put a part of the list."""
        for item in objects:
            self._listed.add(self._take(item))

    def complete(self) -> None:
        """Remove what was not in the list."""
        gone, self._keys = self._keys - self._listed, self._listed
        self._listed = set()
        for key in gone:
            self._remove(key)

    def changed(self, change: Change, item: T) -> None:
        """Put or remove an object."""
        if change == "DELETED":
            self._keys.discard(self._key(item))
            self._remove(self._key(item))
        else:
            self._take(item)

    def _take(self, item: T) -> K:
        """Put an object, and return its key. A malformed one is as if it were not there, and does not affect others."""
        key = self._key(item)
        self._keys.add(key)
        try:
            self._put(item)
        except ValueError as error:
            self._remove(key)
            structlog.get_logger().error("object skipped", key=key, reason=str(error))
        return key
