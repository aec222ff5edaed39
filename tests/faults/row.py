"""A row of the table: a fault, what it must not do, and what it did."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple

from faults.site import Site


class Result(NamedTuple):
    """What a fault did.

    healthy: the seconds until everything was as before, from the beginning of a fault that stays, from the end of one
    that goes; 0 where nothing was lost from then on, infinite where it did not get well. promises: with whether they
    held. slow: promises of latency that did not, which a busy machine breaks by itself.
    """

    seen: str
    lost: str
    healthy: float
    promises: Mapping[str, bool]
    slow: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[str, ...]:
        """The promises that did not hold, but for those of latency."""
        return broken(self.promises)


Fault = Callable[[Site], Result]
"""Does the fault and says what happened. The docstring has two paragraphs: the fault, and what is promised."""


class Row(NamedTuple):
    """A fault with its result. when: the date of its run, as text. busy: with what the machine was, besides the run.

    busy is empty where the machine could do all that at once.
    """

    name: str
    fault: str
    promise: str
    result: Result
    when: str
    busy: str = ""

    @property
    def failures(self) -> tuple[str, ...]:
        """The promises that did not hold. On a busy machine those of latency are not judged."""
        return self.result.broken if self.busy else (*self.result.broken, *self.result.slow)


def name(fault: Fault) -> str:
    """The name of a fault, as in `--row` and in the table."""
    return fault.__name__.replace("_", "-")


def words(fault: Fault) -> tuple[str, str]:
    """What the fault is, and what is promised."""
    first, _, second = (inspect.getdoc(fault) or "").partition("\n\n")
    return " ".join(first.split()), " ".join(second.split())


def broken(promises: Mapping[str, bool]) -> tuple[str, ...]:
    """Those that did not hold, of promises with whether they held."""
    return tuple(promise for promise, held in promises.items() if not held)
