"""The clocks of reviews, and the child process that judges those that take long."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import resource
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.engine.interruption import PostponedError, TimeLimitError
from webhook import heavy
from webhook.heavy import SLICE, Allowance, Child, ChildError, Slice, Ticks


def _spin(seconds: float) -> None:
    """Use processor time without ever looking at a clock of a review."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def _spin_on(ticks: Ticks) -> None:
    """Use processor time until some more ticks have come."""
    before, until = ticks.count, time.thread_time() + 60
    while ticks.count < before + 3:
        assert time.thread_time() < until


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

    def sleep() -> bool:
        time.sleep(0.2)
        return clock()

    assert clock.run(sleep) is False


def test_time_that_another_thread_uses_does_not_count(ticks: Ticks) -> None:
    """Reading policies, which takes seconds of another thread, makes no review a heavy one."""
    clock = Slice(ticks)

    def wait() -> bool:
        other = threading.Thread(target=_spin, args=(0.2,))
        other.start()
        other.join()
        return clock()

    assert clock.run(wait) is False


def test_work_that_never_looks_is_interrupted(ticks: Ticks) -> None:
    """A tick ends what does not look, and only while the slice runs."""
    clock = Slice(ticks)
    with pytest.raises(PostponedError):
        clock.run(lambda: _spin(60))

    _spin_on(ticks)


def test_what_comes_after_a_slice_is_left_alone(ticks: Ticks) -> None:
    """An interruption may come so late that the slice's own end does not run."""
    clock = Slice(ticks)
    with pytest.raises(PostponedError):
        clock.run(lambda: _spin(60))
    ticks.current = clock

    _spin_on(ticks)


class _Referred:
    """Can be referred to weakly."""


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

    gc.collect()  # what other tests left has callbacks of weak references, which may be interrupted
    gc.callbacks.append(spin)
    try:
        with pytest.raises(PostponedError):
            Slice(ticks).run(collect)
    finally:
        gc.callbacks.remove(spin)


def test_an_import_is_not_interrupted(ticks: Ticks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that takes longer than a slice is whole for later reviews, and the slice ends behind it."""
    source = (
        "import time\nuntil = time.thread_time() + 0.2\nwhile time.thread_time() < until:\n    pass\nwhole = True\n"
    )
    (tmp_path / "slowly_loaded.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    def load() -> None:
        importlib.import_module("slowly_loaded")
        _spin(60)

    with pytest.raises(PostponedError):
        Slice(ticks).run(load)

    assert importlib.import_module("slowly_loaded").whole is True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_tick_that_is_lost_is_followed_by_one_that_is_not(ticks: Ticks) -> None:
    """What a callback of a weak reference raises is only printed; the slice ends with the next tick."""

    def release() -> None:
        item = _Referred()
        reference = weakref.ref(item, lambda _: _spin(60))
        del item
        assert reference() is None
        _spin(60)

    before = time.thread_time()
    with pytest.raises(PostponedError):
        Slice(ticks).run(release)

    assert time.thread_time() - before < 30


def test_the_slice_is_for_all_evaluations_of_a_review() -> None:
    """What one evaluation has used is not there for the next one; what others use meanwhile is not counted."""
    ticks = Ticks()
    clock = Slice(ticks)
    seen = []
    for used, by_others in ((SLICE - 1, 10), (0, 10), (1, 0)):

        def look(used: int = used) -> bool:
            ticks.count += used
            return clock()

        try:
            seen.append(clock.run(look))
        except PostponedError:
            seen.append(True)
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


def _descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough


async def test_a_result() -> None:
    """The child returns what its work returns, however large, and neither process nor descriptor is left."""
    before = _descriptors()
    running = Child(lambda: b"x" * 5_000_000)
    result = await running.result
    await running.gone

    assert result == b"x" * 5_000_000
    assert _descriptors() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(running.pid, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


async def test_the_child_has_nothing_of_its_parent_but_memory() -> None:
    """Connections, the event loop and its wake-up are the parent's alone."""

    def work() -> tuple[int, object, int]:
        return len(_descriptors()), signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)

    running = Child(work)
    descriptors, handler, wakeup = await running.result
    await running.gone

    assert descriptors == 3  # standard error, the pipe, and the directory that was listed
    assert (handler, wakeup) == (signal.SIG_DFL, -1)


async def test_work_that_fails() -> None:
    """An exception, or too little memory, is an end without a result."""

    def fails() -> None:
        raise KeyError("x")

    def swells() -> int:
        return len(bytearray(4 * heavy.MEMORY))

    for work in (fails, swells):
        running = Child(work)
        with pytest.raises(ChildError, match="its process ended with 1"):
            await running.result
        await running.gone


async def test_a_child_that_does_not_end() -> None:
    """One that heeds no request to end is killed."""
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    running = Child(lambda: time.sleep(3600))
    signal.signal(signal.SIGALRM, before)
    running.end()
    with pytest.raises(ChildError, match=f"its process ended with -{int(signal.SIGKILL)}"):
        await running.result
    await running.gone


async def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel gives no process the review fails as such, and no descriptor is lost."""
    before = _descriptors()

    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(ChildError, match="no process could be started: Resource temporarily unavailable"):
        Child(lambda: None)

    assert _descriptors() == before


async def test_the_child_is_bounded() -> None:
    """A child whose parent is gone ends by itself, and none takes all memory."""

    def work() -> tuple[int, int, int]:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        used = pages * resource.getpagesize()
        return resource.getrlimit(resource.RLIMIT_CPU)[0], resource.getrlimit(resource.RLIMIT_AS)[0] - used, os.nice(0)

    running = Child(work)
    seconds, memory, nice = await running.result
    await asyncio.wait_for(running.gone, 60)

    assert seconds == heavy.LONGEST_SECONDS
    assert memory <= heavy.MEMORY
    assert nice >= os.nice(0)
