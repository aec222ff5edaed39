"""Room for trees that are deeper than Python's usual limit: the reference accepts some, since macros nest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import TypeVar

_DEEP = 12_000  # frames; Python's own functions take none of the C stack
_Result = TypeVar("_Result")


class NestingError(RecursionError):
    """Even with all the room there is, a function needed more."""


class _Room(local):
    """The limit is one for all threads: the last one that needs more room gives it back. `deep` is a thread's own."""

    lock = Lock()
    users = 0
    usual = 0
    deep = False

    @contextmanager
    def more(self) -> Iterator[None]:
        shared = type(self)
        with self.lock:
            if shared.users == 0:
                shared.usual = sys.getrecursionlimit()
                sys.setrecursionlimit(_DEEP)
            shared.users += 1
        self.deep = True
        try:
            yield
        finally:
            self.deep = False
            with self.lock:
                shared.users -= 1
                if shared.users == 0:
                    sys.setrecursionlimit(shared.usual)


_ROOM = _Room()


def deeply(function: Callable[[], _Result]) -> _Result:
    """What a function gives, with more room if it needs it. Raises NestingError where even that is too little.

    A plain RecursionError means that there was no room left at the start; a caller further up may have more.
    """
    try:
        return function()
    except RecursionError as error:
        if _ROOM.deep:
            raise NestingError from error
    with _ROOM.more():
        try:
            return function()
        except RecursionError as error:
            raise NestingError from error
