"""A process's handling of signals."""

from __future__ import annotations

import asyncio
import signal


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
