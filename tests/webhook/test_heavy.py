"""The clocks of reviews."""

from __future__ import annotations

import threading
import time

import pytest

from policies.engine.interruption import Key, Missing, PostponedError, TimeLimitError
from webhook import heavy
from webhook.heavy import SLICE, Allowance, Slice


class _Named(Key[str]):
    """A key of no interest."""

    missing = "not known"


_KEY = _Named()


def _spin(seconds: float) -> None:
    """Use processor time without ever looking at a clock of a review."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_time_that_is_not_used_does_not_count() -> None:
    """A process that the kernel does not run for a while has not spent its slice."""
    clock = Slice()

    def sleep() -> bool:
        time.sleep(0.2)
        return clock()

    assert clock.run(sleep) is False


def test_time_that_another_thread_uses_does_not_count() -> None:
    """Reading policies, which takes seconds of another thread, makes no review a heavy one."""
    clock = Slice()

    def wait() -> bool:
        other = threading.Thread(target=_spin, args=(0.2,))
        other.start()
        other.join()
        return clock()

    assert clock.run(wait) is False


def test_the_slice_is_for_all_evaluations_of_a_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one evaluation has used is not there for the next one; what others use meanwhile is not counted."""
    time = 0.0
    monkeypatch.setattr(heavy, "thread_time", lambda: time)
    monkeypatch.setattr(heavy, "monotonic", lambda: time)
    clock = Slice()
    seen: list[object] = []
    for used, by_others in ((0.9 * SLICE, 1.0), (0.0, 1.0), (0.2 * SLICE, 0.0)):

        def look(used: float = used) -> None:
            nonlocal time
            time += used
            seen.append(clock())
            raise Missing(_KEY)

        try:
            clock.run(look)
        except (Missing, PostponedError) as error:
            seen.append(type(error))
        time += by_others

    assert seen == [False, Missing, False, Missing, PostponedError]


def test_an_allowance_ends_everything_that_follows() -> None:
    """After the end of the time each look says so with the same error, which knows the policy."""
    allowance = Allowance(3600)
    assert allowance() is False
    allowance.end()
    with pytest.raises(TimeLimitError) as caught:
        allowance()
    caught.value.blame("dear")
    with pytest.raises(TimeLimitError) as again:
        allowance()

    assert again.value is caught.value
    assert str(caught.value).startswith("it took longer than ")
    assert allowance.policy == "dear"
