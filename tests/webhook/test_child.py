"""Child processes: what they return, what they may use, and how they end."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from webhook.child import Child, ChildError, End
from webhook.limits import Limits

_LIMITS = Limits(memory=64 * 2**20, seconds=1)


async def _end(*work: Callable[[], Any]) -> End:
    """The end of a child that does some work."""
    return await Child(lambda: (part() for part in work), _LIMITS).ended


def _descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough


async def test_results() -> None:
    """The child returns what its work yields, however large, and neither process nor descriptor is left."""
    before = _descriptors()
    running = Child(lambda: iter((b"x" * 5_000_000, "y")), _LIMITS)
    end = await running.ended

    assert (end.reason, list(end.results())) == ("", [b"x" * 5_000_000, "y"])
    assert list(End("killed while it wrote", end.written[:-1]).results()) == [b"x" * 5_000_000]
    assert _descriptors() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(running.pid, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


async def test_the_child_has_nothing_of_its_parent_but_memory() -> None:
    """Connections, the event loop and its wake-up are the parent's alone."""
    end = await _end(_descriptors, lambda: signal.getsignal(signal.SIGTERM), lambda: signal.set_wakeup_fd(-1))
    descriptors, handler, wakeup = end.results()

    assert len(descriptors) == 3  # standard error, the pipe, and the directory that was listed
    assert (handler, wakeup) == (signal.SIG_DFL, -1)


def _fail() -> NoReturn:
    raise KeyError("x")


def _swell() -> None:
    bytearray(4 * _LIMITS.memory)


def _spin() -> NoReturn:
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        pytest.param(_fail, "ended with 1", id="exception"),
        pytest.param(_swell, "took over 64 MiB of memory", id="memory"),
        pytest.param(os.abort, "took over 64 MiB of memory", id="memory of C++"),
        pytest.param(_spin, "took over 1 s", id="time"),
        pytest.param(lambda: os.kill(os.getpid(), signal.SIGSEGV), "ended with -11", id="crash"),
    ],
)
async def test_work_that_fails(work: Callable[[], object], reason: str) -> None:
    """The end says why there is no result, and has those from before."""
    end = await _end(lambda: "first", work)

    assert (list(end.results()), end.reason) == (["first"], reason)


def _sleep() -> Iterator[None]:
    time.sleep(3600)
    yield


async def test_a_child_that_does_not_end() -> None:
    """One that heeds no request to end is killed."""
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    running = Child(_sleep, _LIMITS)
    signal.signal(signal.SIGALRM, before)
    running.end()

    assert await running.ended == End(f"ended with -{int(signal.SIGKILL)}", b"")


async def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel gives no process the review fails as such, and no descriptor is lost."""
    before = _descriptors()

    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(ChildError, match="no process could be started: Resource temporarily unavailable"):
        Child(lambda: (), _LIMITS)

    assert _descriptors() == before


async def test_the_child_is_bounded() -> None:
    """A child whose parent is gone ends by itself, and none takes all memory."""

    def bounds() -> Iterator[int]:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        yield resource.getrlimit(resource.RLIMIT_CPU)[0]
        yield resource.getrlimit(resource.RLIMIT_AS)[0] - pages * resource.getpagesize()
        yield os.nice(0)

    seconds, memory, nice = (await Child(bounds, _LIMITS).ended).results()

    assert seconds == _LIMITS.seconds
    assert memory <= _LIMITS.memory
    assert nice == min(os.nice(0) + 5, 19)
