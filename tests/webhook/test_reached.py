"""When the API server may be told to call: not before others have seen that somebody answers."""

from __future__ import annotations

from webhook.reached import REACHED_SECONDS, Reached


def test_it_has_to_be_ready_for_a_while() -> None:
    """It counts from when the process is ready, anew where it was not meanwhile, and holds for good."""
    reasons, now = ["starting"], [100.0]
    reached = Reached(lambda: reasons, lambda: now[0])

    def after(seconds: float, *why: str) -> bool:
        now[0] += seconds
        reasons[:] = why
        return reached()

    assert not after(REACHED_SECONDS, "starting")
    assert not after(1.0)
    assert not after(REACHED_SECONDS - 1.0)
    assert not after(1.0, "cluster: gone")
    assert not after(1.0)
    assert not after(REACHED_SECONDS - 0.1)
    assert after(0.1)
    assert after(1.0, "draining")
