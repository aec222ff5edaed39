"""Room for trees that are deeper than Python's usual limit: the reference accepts some, since macros nest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

_DEEP = 12_000  # frames; Python's own functions take none of the C stack
_Result = TypeVar("_Result")


def deeply(function: Callable[[], _Result]) -> _Result:
    """What a function gives, with more room if it needs it. Raises RecursionError where even that is too little."""
    try:
        return function()
    except RecursionError:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(max(usual, _DEEP))
        try:
            return function()
        finally:
            sys.setrecursionlimit(usual)
