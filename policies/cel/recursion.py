"""Recursion into trees that are deeper than Python's usual limit. The reference accepts some, because macros nest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import TypeVar

_DEEP = 12_000  # frames; Python's own functions take none of the C stack
_Result = TypeVar("_Result")


class NestingError(RecursionError):
    """A function exceeded even the raised recursion limit."""


class _Room(local):
    """Raises the recursion limit. All threads share it; the last user restores it. `deep` belongs to one thread."""

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
    """The result of a function, with a raised recursion limit if needed. Raises NestingError if that does not suffice.

    A plain RecursionError means that the stack was already full at the start; a caller further up may have more room.
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
