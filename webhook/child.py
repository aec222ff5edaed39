"""A process that is forked for a piece of work, has the memory of its parent at that moment, and ends with the work."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import pickle
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from webhook.limits import Limits, virtual_memory

# From the end of the time to the end of the process: a child may still say what came of its work.
LAST_WORDS = 0.1
KILLED = f"ended with {-signal.SIGKILL}"
"""The reason of the end of a child that this process, or the kernel for want of memory, has killed."""
_NO_MEMORY = 2
_STDERR = 2
_CHUNK = 1 << 16


class ChildError(Exception):
    """There can be no child, or it ended without a result."""


class End(NamedTuple):
    """The end of a child. reason: empty if its work was done; otherwise what ended it, as in `its process <reason>`."""

    reason: str
    written: bytes

    def results(self) -> Iterator[Any]:
        """What the work had yielded until then."""
        stream = io.BytesIO(self.written)
        with suppress(EOFError, pickle.UnpicklingError):  # the last one may not be complete
            while True:
                yield pickle.load(stream)  # noqa: S301 - this program wrote it


class Child:
    """A running child. ended: set when no process is left; wait for it shielded.

    work: runs in the child, and yields what can be pickled. Raises ChildError if there can be no process.
    """

    def __init__(self, work: Callable[[], Iterable[Any]], limits: Limits) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[End] = self._loop.create_future()
        self._limits = limits
        self._received = bytearray()
        try:
            self.pid, self._process, self._reading = _forked(work, limits)
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
        if not self.ended.done():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def _read(self) -> None:
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
        reason = f"ended with {code}" if code else ""
        if code == -signal.SIGXCPU:
            reason = f"took over {self._limits.seconds} s"
        elif code in (_NO_MEMORY, -signal.SIGABRT):  # C++ aborts where Python raises MemoryError
            reason = f"took over {self._limits.memory >> 20} MiB of memory"
        self.ended.set_result(End(reason, bytes(self._received)))


def _forked(work: Callable[[], Iterable[Any]], limits: Limits) -> tuple[int, int, int]:
    """The id of a new process, and descriptors of the process and of what it writes. Raises OSError."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _live(work, writing, limits)
        try:
            process = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    os.set_blocking(reading, False)
    return pid, process, reading


def _live(work: Callable[[], Iterable[Any]], writing: int, limits: Limits) -> NoReturn:
    """The whole life of the child. It never returns to the event loop of its parent."""
    code = 1
    try:
        # Let go of what is the parent's.
        signal.set_wakeup_fd(-1)  # a signal here would wake the parent's event loop
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU):
            signal.signal(number, signal.SIG_DFL)
        for first, end in ((0, _STDERR), (_STDERR + 1, writing), (writing + 1, os.sysconf("SC_OPEN_MAX"))):
            os.closerange(first, end)
        gc.freeze()  # what the parent made is not looked at, so its memory stays shared

        # Bound what this process may use.
        bounds = {
            resource.RLIMIT_AS: (virtual_memory() + limits.memory,) * 2,
            resource.RLIMIT_CORE: (0, 0),  # SIGXCPU would leave one
            resource.RLIMIT_CPU: (limits.seconds, limits.seconds + 1),
        }
        with suppress(OSError):
            os.nice(5)
        with suppress(OSError, ValueError):
            for what, bound in bounds.items():
                resource.setrlimit(what, bound)

        for result in work():
            written = memoryview(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
            while written:
                written = written[os.write(writing, written) :]
        code = 0
    except MemoryError:
        code = _NO_MEMORY
    finally:
        os._exit(code)
