"""A child process that does one piece of work and ends.

`fork` gives the child the rules and facts in force at that moment, so nothing has to be kept in step. The child closes
everything else at once: the connections and the event loop are the parent's.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

# What a child may allocate beyond what it shares with its parent. A review of 8 MiB needs 60 to 120 MiB decoded.
MEMORY = 256 * 1024 * 1024
# The processor time of a child whose parent is gone or does not get to end it.
LONGEST_SECONDS = 40
# From the end of the time to the end of the process: rules that have not run fail, and the answer is encoded.
LAST_WORDS = 0.1
_STDERR = 2
_CHUNK = 1 << 16


class ChildError(Exception):
    """A child ended without a result."""


class Child:
    """A running child. result: what `work` returned, or ChildError. gone: set when no process is left.

    work: runs in the child, and returns what can be pickled. Raises ChildError if there can be no process.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._received = bytearray()
        try:
            self.pid, self._process, self._reading = _forked(work)
        except OSError as error:
            raise ChildError(f"no process could be started: {error.strerror}") from error
        self._loop.add_reader(self._reading, self._read)
        self._loop.add_reader(self._process, self._reap)

    def end(self) -> None:
        """End the work. The child may still say what came of it; it is killed if it does not do so at once."""
        self._send(signal.SIGALRM)
        self._loop.call_later(LAST_WORDS, self.kill)

    def kill(self) -> None:
        """Kill the process, if there is still one."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if not self.gone.done():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def _read(self) -> None:
        """Read what the child has written so far."""
        with suppress(BlockingIOError):
            while part := os.read(self._reading, _CHUNK):
                self._received += part
            self._loop.remove_reader(self._reading)

    def _reap(self) -> None:
        """Take what the child has left. It has ended, so everything that it wrote is there."""
        self._loop.remove_reader(self._process)
        self._read()
        self._loop.remove_reader(self._reading)
        _, status = os.waitpid(self.pid, 0)
        os.close(self._process)
        os.close(self._reading)
        code = os.waitstatus_to_exitcode(status)
        if not self.result.done():
            if code == 0:
                self.result.set_result(pickle.loads(self._received))  # noqa: S301 - this program wrote it
            else:
                self.result.set_exception(ChildError(f"its process ended with {code}"))
        self.gone.set_result(None)


def _forked(work: Callable[[], Any]) -> tuple[int, int, int]:
    """The id of a new process, and descriptors of the process and of what it writes. Raises OSError."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _live(work, writing)
        process = _opened(pid)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    os.set_blocking(reading, False)
    return pid, process, reading


def _opened(pid: int) -> int:
    """A descriptor of a process, which is ended if there can be none. Raises OSError."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _live(work: Callable[[], Any], writing: int) -> NoReturn:
    """The whole life of the child. It never returns to the event loop of its parent."""
    code = 1
    try:
        _detach(writing)
        written = memoryview(pickle.dumps(work(), pickle.HIGHEST_PROTOCOL))
        while written:
            written = written[os.write(writing, written) :]
        code = 0
    finally:
        os._exit(code)


def _detach(writing: int) -> None:
    """Let go of what is the parent's, and bound what the child may use."""
    signal.set_wakeup_fd(-1)  # a signal here would wake the parent's event loop
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    last = os.sysconf("SC_OPEN_MAX")
    for first, end in ((0, _STDERR), (_STDERR + 1, writing), (writing + 1, last)):
        os.closerange(first, end)
    gc.freeze()  # what the parent made is not looked at, so its memory stays shared
    with suppress(OSError):
        os.nice(5)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_virtual() + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_SECONDS,) * 2)


def _virtual() -> int:
    """The virtual memory that this process has now, in bytes."""
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(statm, 100).split()[0]) * resource.getpagesize()
    finally:
        os.close(statm)
