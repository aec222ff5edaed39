"""Properties that are computed once."""

from __future__ import annotations

import os
import signal
import threading

from policies.cached import cached_property

_MOST_SECONDS = 60  # a child that waits for ever is killed then


class _Slow:
    def __init__(self, begun: threading.Event, end: threading.Event) -> None:
        self.begun, self.end = begun, end
        self.times = 0

    @cached_property
    def value(self) -> int:
        """How often it was computed."""
        self.times += 1
        self.begun.set()
        self.end.wait()
        return self.times


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def test_a_value_is_computed_once() -> None:
    """The value stays, and the property tells what it is."""
    slow = _Slow(_set(), _set())

    assert (slow.value, slow.value, slow.times) == (1, 1, 1)
    assert _Slow.value.__doc__ == "How often it was computed."


def test_a_child_process_waits_for_no_thread_of_its_parent() -> None:
    """A process that begins while a thread computes the property of one instance can compute that of another one."""
    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: _Slow(begun, end).value)
    thread.start()
    begun.wait()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_MOST_SECONDS)
        os._exit(_Slow(_set(), _set()).value)
    _, status = os.waitpid(pid, 0)
    end.set()
    thread.join()

    assert os.waitstatus_to_exitcode(status) == 1
