"""The load of a cluster: reviews come when they are due, however long the answers to others take."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, cast

from benchmarks.bodies import with_uid
from benchmarks.load import HEAD, admits, context, is_whole

CONNECTIONS = 4
LATE = 30.0  # seconds after which an answer counts as lost


class Answered(NamedTuple):
    """One review: when it was due, and how long its answer took from then on, in seconds."""

    due: float
    latency: float


class _Connection(asyncio.Protocol):
    """One keep-alive connection. A review that is due while an answer is awaited waits, and this time counts."""

    def __init__(self, request: bytes, uid: bytes, answered: list[Answered]) -> None:
        self._request, self._uid, self._answered = request, uid, answered
        self._received = b""
        self._transport: asyncio.Transport
        self.waiting: deque[float] = deque()
        self.wrong: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection, and wait for the first review."""
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, due: float) -> None:
        """Send a review as soon as all earlier ones have their answers."""
        self.waiting.append(due)
        if len(self.waiting) == 1:
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take an answer, or a part of it, and send a review that waits."""
        data = self._received + data
        if not is_whole(data):
            self._received = data
            return
        self._received = b""
        due = self.waiting.popleft()
        if admits(data, self._uid):
            self._answered.append(Answered(due, time.perf_counter() - due))
        else:
            self.wrong.append(data[:400])
        if self.waiting:
            self._transport.write(self._request)

    def close(self) -> None:
        """Send no more reviews."""
        self._transport.close()


class Load:
    """Some connections to a port of 127.0.0.1. answered: the reviews that were admitted, in the order of answers."""

    def __init__(self) -> None:
        self.answered: list[Answered] = []
        self._connections: list[_Connection] = []

    async def connect(self, port: int, path: str, sent: bytes) -> None:
        """Open the connections, over which this review is sent again and again."""
        for number in range(CONNECTIONS):
            uid = f"00000000-0000-4000-8000-{number:012}"
            content = with_uid(sent, uid)
            request = HEAD.format(path=path, port=port, length=len(content)).encode() + content
            connection = _Connection(request, f'"uid":"{uid}"'.encode(), self.answered)
            await asyncio.get_running_loop().create_connection(lambda c=connection: c, "127.0.0.1", port, ssl=context())  # type: ignore[misc]
            self._connections.append(connection)

    async def ask(self, gaps: Iterable[float]) -> None:
        """Send a review after each of these times in seconds."""
        due = time.perf_counter()
        for number, gap in enumerate(gaps):
            due += gap
            await asyncio.sleep(due - time.perf_counter())
            self._connections[number % CONNECTIONS].ask(due)

    async def end(self) -> int:
        """Wait for the last answers, and close the connections. Returns how many reviews were lost or not admitted."""
        deadline = time.perf_counter() + LATE
        while any(c.waiting for c in self._connections) and time.perf_counter() < deadline:  # noqa: ASYNC110 - the last few
            await asyncio.sleep(0.01)
        for connection in self._connections:
            connection.close()
        return sum(len(connection.waiting) + len(connection.wrong) for connection in self._connections)
