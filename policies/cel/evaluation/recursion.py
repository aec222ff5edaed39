"""Room for trees that are deeper than Python's usual limit: the reference accepts some, since macros nest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

_DEEP = 12_000  # frames; Python's own functions take none of the C stack
_Result = TypeVar("_Result")


class NestingError(RecursionError):
    """Even with all the room there is, a function needed more."""


def deeply(function: Callable[[], _Result]) -> _Result:
    """What a function gives, with more room if it needs it. Raises NestingError where even that is too little.

    A plain RecursionError means that there was no room left to begin with: whoever called may have more to give.
    """
    try:
        return function()
    except RecursionError as error:
        usual = sys.getrecursionlimit()
        if usual >= _DEEP:
            raise NestingError from error
    sys.setrecursionlimit(_DEEP)
    try:
        return function()
    except RecursionError as error:
        raise NestingError from error
    finally:
        sys.setrecursionlimit(usual)
