"""What is remembered between the turns of the registration: repairs that are undone, and since when calls arrive."""

from __future__ import annotations

import pytest

from webhook.registration.plan import REACHED_SECONDS, Calls, Repairs


@pytest.mark.parametrize(
    ("pauses", "undone"),
    [
        pytest.param([], False, id="none"),
        pytest.param([0] * 5, False, id="five-at-once"),
        pytest.param([0] * 6, True, id="six-at-once"),
        pytest.param([12] * 6, True, id="six-in-a-minute"),
        pytest.param([12.5] * 6, False, id="six-in-more"),
        pytest.param([0] * 6 + [59, 59, 59], True, id="it-goes-on-slowly"),
        pytest.param([0] * 6 + [61], False, id="it-came-to-an-end"),
    ],
)
def test_many_repairs_in_a_minute_are_a_fight(pauses: list[float], *, undone: bool) -> None:
    """More than five in a minute are too many, and so it stays until a minute passes without one."""
    now, repairs = 100.0, Repairs()
    for pause in pauses:
        now += pause
        repairs = repairs.added(now)

    assert repairs.undone(now) is undone
    assert not repairs.undone(now + 61)


def test_calls_arrive_after_a_while_of_being_ready() -> None:
    """It counts from when the process is ready, anew where it was not meanwhile, and holds for good."""
    now, calls = 100.0, Calls()
    arrived = []
    for seconds, ready in (
        (REACHED_SECONDS, False),
        (1.0, True),
        (REACHED_SECONDS - 1.0, True),
        (1.0, False),
        (1.0, True),
        (REACHED_SECONDS - 0.1, True),
        (0.1, True),
        (1.0, False),
    ):
        now += seconds
        calls = calls.observed(ready=ready, now=now)
        arrived.append(calls.arrive)

    assert arrived == [False] * 6 + [True] * 2
