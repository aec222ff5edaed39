"""A process's handling of signals, and of its supervisor if it is a worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import structlog


def mark_logs(number: int) -> None:
    """Add the number of this worker to each log line from now on."""

    def mark(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["worker"] = number
        return event

    structlog.configure(processors=[mark, *structlog.get_config()["processors"]])


def end_with_supervisor() -> None:
    """End this process gracefully when the supervisor is gone, however it ended.

    The supervisor holds the other end of standard input and never writes. The kernel closes it even if the supervisor
    was killed.
    """
    loop = asyncio.get_running_loop()
    standard_input = sys.stdin.fileno()

    def look() -> None:
        if os.read(standard_input, 1024):
            return
        loop.remove_reader(standard_input)
        # Logs went to the supervisor, too. Nobody reads them now, and reviews must not fail because of that.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)
        signal.raise_signal(signal.SIGTERM)

    loop.add_reader(standard_input, look)


def stop_signal() -> asyncio.Future[signal.Signals]:
    """A future that the first SIGTERM or SIGINT resolves. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[signal.Signals] = loop.create_future()

    def receive(number: signal.Signals) -> None:
        for known in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(known)
        received.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive, number)
    return received
