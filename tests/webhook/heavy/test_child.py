"""Child processes: what they return, how they end, and that nothing is left of them."""

import asyncio
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from webhook import heavy
from webhook.heavy import Child, ChildError


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
