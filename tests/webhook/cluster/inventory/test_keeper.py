"""Answers from what is free and what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structlog.testing import capture_logs
from support.rackgangs import fitting, gang, job, question, rack

from policies.topology.choice.choice import Choice
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang, GangKey
from policies.topology.gang.promise import Promise
from webhook.cluster.inventory.answers import SECONDS
from webhook.cluster.inventory.keeper import Keeper

NOW = 1000.0
STOCK: Any = object()


class _Records:
    """What is on record: one promise, and that every gang has a Pod more."""

    known = Promise(job("other"), rack("r9"), gang().members, NOW + 60)

    def promises(self, now: float) -> Sequence[Promise]:
        """The promise, while it lasts."""
        return [self.known] if now < self.known.until else []

    def whole(self, gang: Gang) -> Gang:
        """The gang, with what is known of it."""
        return gang

    def home(self, key: GangKey) -> Address:
        """The rack of the third replica."""
        return rack("r8") if key.part == "2" else ()


class _Chooser:
    """Chooses one rack after the other, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, gangs: Sequence[Gang], stock: Any, promises: Sequence[Promise], kept: Any) -> tuple[Choice, ...]:
        """The next rack."""
        self.asked.append((gangs, stock, [promise.address for promise in promises], kept))
        return (fitting(f"r{len(self.asked)}"),)


def test_a_choice_counts_for_the_next_one() -> None:
    """The choice gets the stock, what is on record, and the answers before it until their time is over."""
    choose = _Chooser()
    keeper = Keeper(STOCK, _Records(), str, choose)
    first, second = question(gang(job("a"))), question(gang(job("b")), kept=(rack("r3"),))
    answers = [keeper.answer(first, NOW), keeper.answer(second, NOW + 1), keeper.answer(first, NOW + SECONDS)]

    assert answers == [(fitting("r1"),), (fitting("r2"),), (fitting("r3"),)]
    assert choose.asked == [
        (first.gangs, STOCK, [rack("r9")], ()),
        (second.gangs, STOCK, [rack("r9"), rack("r1")], (rack("r3"),)),
        (first.gangs, STOCK, [rack("r9")], ()),
    ]


def test_nothing_is_chosen_in_doubt() -> None:
    """While the stock cannot be trusted, the answer is unknown for each gang, with the reason, and promises nothing."""
    choose = _Chooser()
    keeper = Keeper(STOCK, _Records(), lambda: "pods: first list not done", choose)

    assert keeper.answer(question(gang(), gang()), NOW) == (Choice("unknown", "pods: first list not done"),) * 2
    assert (choose.asked, len(keeper.answers)) == ([], 0)


def test_a_defect_of_the_choice_is_an_answer() -> None:
    """A choice that fails is logged, and is unknown to whoever asked."""

    def choose(*_: Any) -> tuple[Choice, ...]:
        raise ZeroDivisionError("division by zero")

    with capture_logs() as logs:
        answer = Keeper(STOCK, _Records(), str, choose).answer(question(), NOW)

    assert answer == (Choice("unknown", "the choice failed: ZeroDivisionError: division by zero"),)
    assert [log["event"] for log in logs] == ["no domain could be chosen"]


def test_a_replica_stays_together() -> None:
    """The Pods of a LeaderWorkerSet's replica follow the first one of them, or its leader; other replicas do not."""
    choose = _Chooser()
    keeper = Keeper(STOCK, _Records(), str, choose)
    leader, other, third = (
        question(gang(GangKey("team", "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "serve", part))) for part in "012"
    )
    for key in (leader, leader, other, third):
        keeper.answer(key, NOW)

    assert [kept for *_, kept in choose.asked] == [(), (rack("r1"),), (), (rack("r8"),)]
