"""The clocks of reviews."""

import gc
import signal
import time
from collections.abc import Iterator

import pytest

from policies.engine.timelimit import PostponedError, TimeLimitError
from webhook.heavy.clock import SLICE, Allowance, Slice, Ticks


def _spin(seconds: float) -> None:
    """Use processor time without ever looking at a clock of a review."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.fixture
def ticks() -> Iterator[Ticks]:
    """Ticks that count."""
    ticks = Ticks()
    ticks.start()
    yield ticks
    signal.setitimer(signal.ITIMER_PROF, 0)


def test_time_that_is_not_used_does_not_count(ticks: Ticks) -> None:
    """A process that the kernel does not run for a while has not spent its slice."""
    clock = Slice(ticks)
    clock.begin()
    time.sleep(0.2)

    assert clock() is False
    clock.end()


def test_work_that_never_looks_is_interrupted(ticks: Ticks) -> None:
    """A tick ends what does not look, and only between begin and end."""
    clock = Slice(ticks)
    clock.begin()
    with pytest.raises(PostponedError):
        _spin(60)
    clock.end()
    before = ticks.count
    _spin(0.1)

    assert ticks.count > before


def test_a_slice_is_ended_once(ticks: Ticks) -> None:
    """The interruption may come so late that the slice's own end does not run; what runs then is left alone."""
    clock = Slice(ticks)
    clock.begin()
    with pytest.raises(PostponedError):
        _spin(60)
    before = ticks.count
    _spin(0.1)

    assert ticks.count > before


class _Finalized:
    """Spins when it goes."""

    def __del__(self) -> None:
        _spin(0.1)


def test_finalizers_and_the_garbage_collector_are_not_interrupted(ticks: Ticks) -> None:
    """What they raise would be lost, so the slice ends right after them."""

    def spin(_phase: str, _info: object) -> None:
        _spin(0.1)

    def collect() -> None:
        item = _Finalized()
        del item
        gc.collect()
        _spin(60)

    clock = Slice(ticks)
    gc.callbacks.append(spin)
    clock.begin()
    try:
        with pytest.raises(PostponedError):
            collect()
    finally:
        gc.callbacks.remove(spin)
        clock.end()


def test_the_slice_is_for_all_evaluations_of_a_review() -> None:
    """What one evaluation has used is not there for the next one; what others use meanwhile is not counted."""
    ticks = Ticks()
    clock = Slice(ticks)
    seen = []
    for used, by_others in ((SLICE - 1, 10), (0, 10), (1, 0)):
        clock.begin()
        ticks.count += used
        try:
            seen.append(clock())
        except PostponedError:
            seen.append(True)
        clock.end()
        ticks.count += by_others

    assert seen == [False, False, True]


def test_an_allowance_ends_everything_that_follows() -> None:
    """After the end of the time each look says so with the same error, which knows the policy."""
    allowance = Allowance()
    with pytest.raises(TimeLimitError) as caught, allowance.running(0.01):
        _spin(60)
    caught.value.blame("dear")
    with pytest.raises(TimeLimitError) as again:
        allowance()

    assert again.value is caught.value
    assert str(caught.value).startswith("it took longer than ")
    assert allowance.policy == "dear"
