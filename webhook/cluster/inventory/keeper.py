"""Answers which domain a gang belongs in, from what is free and what was promised. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang
from policies.topology.gang.promise import Promise
from webhook.cluster.inventory.answers import Answers

if TYPE_CHECKING:
    from policies.topology.choice.stock import Stock

Choose = Callable[[Sequence[Gang], "Stock", Sequence[Promise], Sequence[Address]], tuple[Choice, ...]]


class Promises(Protocol):
    """What is on record."""

    def promises(self, now: float) -> Iterable[Promise]:
        """The Pods that are still to be bound, at a time in seconds since the epoch."""


class Keeper:
    """Keeps what a choice depends on.

    stock: the Nodes and what is free on them. records: what workloads' own records promise. doubt: why the stock must
    not be trusted now; empty if it may. choose: the choice. answers: those that no watch has shown yet.
    """

    def __init__(self, stock: Stock, records: Promises, doubt: Callable[[], str], choose: Choose) -> None:
        self.answers = Answers()
        self._stock = stock
        self._records = records
        self._doubt = doubt
        self._choose = choose
        self._log = structlog.get_logger()

    def promises(self, now: float) -> tuple[Promise, ...]:
        """All that is promised at a time in seconds since the epoch."""
        return (*self._records.promises(now), *self.answers.promises(now))

    def answer(self, key: ChoiceKey, now: float) -> tuple[Choice, ...]:
        """The choices for the gangs of a workload; unknown, with the reason, if the stock cannot be trusted."""
        if reason := self._doubt():
            return key.failure(reason)
        try:
            choices = self._choose(key.gangs, self._stock, self.promises(now), key.kept)
        except Exception as error:  # a defect must fail neither the review nor the process that answers all workers
            self._log.exception("no domain could be chosen", namespace=key.gangs[0].key.namespace)
            return key.failure(f"the choice failed: {type(error).__name__}: {error}")
        self.answers.note(key, choices, now)
        return choices
