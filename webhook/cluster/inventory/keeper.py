"""Answers which domain a gang belongs in, from what is free and what was promised. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog
from msgspec.structs import replace

from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang, GangKey
from policies.topology.gang.promise import Promise
from webhook.cluster.inventory.answers import Answers

if TYPE_CHECKING:
    from policies.topology.choice.stock import Stock

Choose = Callable[[Sequence[Gang], "Stock", Sequence[Promise], Sequence[Address]], tuple[Choice, ...]]


class Records(Protocol):
    """What workloads and Pods have on record."""

    def promises(self, now: float) -> Iterable[Promise]:
        """The Pods that are still to be bound, at a time in seconds since the epoch."""

    def whole(self, gang: Gang) -> Gang:
        """A gang with what is known of its other templates."""

    def home(self, key: GangKey) -> Address:
        """The domain of a replica that has a leader; empty if it is not known."""


class Keeper:
    """Keeps what a choice depends on.

    stock: the Nodes and what is free on them. records: what workloads' own records promise. doubt: why the stock must
    not be trusted now; empty if it may. choose: the choice. answers: those that no watch has shown yet.
    """

    def __init__(self, stock: Stock, records: Records, doubt: Callable[[], str], choose: Choose) -> None:
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
            promises = self.promises(now)
            key = self._whole(key, promises)
            choices = self._choose(key.gangs, self._stock, promises, key.kept)
        except Exception as error:  # noqa: BLE001 - a defect must not fail the review
            self._log.exception("no domain could be chosen", namespace=key.gangs[0].key.namespace)
            return key.failure(f"the choice failed: {type(error).__name__}: {error}")
        self.answers.note(key, choices, now)
        return choices

    def _whole(self, key: ChoiceKey, promises: Iterable[Promise]) -> ChoiceKey:
        """The question with what the records know of it: other templates, and the domain of a replica's other Pods."""
        gangs = tuple(map(self._records.whole, key.gangs))
        promised = {promise.key: promise.address for promise in promises if promise.key.part}
        homes = tuple(self._records.home(gang.key) or promised.get(gang.key, ()) for gang in gangs)
        return replace(key, gangs=gangs, kept=key.kept or (homes if any(homes) else ()))
