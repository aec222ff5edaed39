"""Brings the objects of a reflector into something that keeps them one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Generic, TypeVar

import structlog

from webhook.cluster.api.objects import Object
from webhook.cluster.watches.cache import Change

T = TypeVar("T", bound=Object)
K = TypeVar("K", bound=Hashable)


class Entries(Generic[T, K]):
    """A sink that puts and removes single objects, so that no list is held as a whole.

    key: identifies an object. put: takes an object that is new or has changed; may raise ValueError. remove: takes the
    key of an object that is gone. retain: takes the keys of all objects that are there.
    """

    def __init__(
        self,
        key: Callable[[T], K],
        put: Callable[[T], object],
        remove: Callable[[K], object],
        retain: Callable[[Collection[K]], object],
    ) -> None:
        self._key = key
        self._put = put
        self._remove = remove
        self._retain = retain
        self._listed: set[K] = set()

    def begin(self) -> None:
        """Begin a list."""
        self._listed = set()

    def page(self, objects: Sequence[T]) -> None:
        """Put a part of the list."""
        for item in objects:
            self._take(item)
            self._listed.add(self._key(item))

    def complete(self) -> None:
        """Remove what was not in the list."""
        listed, self._listed = self._listed, set()
        self._retain(listed)

    def changed(self, change: Change, item: T) -> None:
        """Put or remove an object."""
        if change == "DELETED":
            self._remove(self._key(item))
        else:
            self._take(item)

    def _take(self, item: T) -> None:
        """Put an object. A malformed one is as if it were not there, and does not affect others."""
        try:
            self._put(item)
        except ValueError as error:
            self._remove(self._key(item))
            namespace, name = item.metadata.namespace, item.metadata.name
            structlog.get_logger().error("object skipped", namespace=namespace, name=name, reason=str(error))
