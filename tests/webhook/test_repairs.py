"""Repairs that are undone show in how many there are."""

import pytest
from webhook.repairs import Repairs


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
def test_many_in_a_minute_are_a_fight(pauses: list[float], *, undone: bool) -> None:
    """More than five in a minute are too many, and so it stays until a minute passes without one."""
    now = 100.0
    repairs = Repairs(lambda: now)
    for pause in pauses:
        now += pause
        repairs.add()

    assert repairs.undone is undone
    now += 61
    assert not repairs.undone
