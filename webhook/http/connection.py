"""One connection of a caller: when its head is overdue, when its answer is, and when it has been open long enough.

aiohttp bounds the line, each field and the number of fields of a head, but neither their sum nor the time that they
take. The API server balances connections, not calls, and keeps them open; so each is ended after a while, by
`Connection: close` on an answer, which loses no call.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Refuse = Callable[[int, str], web.Response]
# The API server sends ten fields. One of them may be a token of some KiB.
HEAD_BYTES = 32 * 1024
HEAD_FIELDS = 64
# From the first byte of a head to its last one. The API server sends it in one piece.
HEAD_SECONDS = 5.0
# For a caller to take its answer, which is a few KiB long, and up to 1.5 MiB with a patch.
ANSWER_SECONDS = 10.0
# For the rest of a body that was refused, so that the caller reads the refusal.
LINGERING_SECONDS = 2.0


class Connection(RequestHandler):
    """A connection. known: whether a whole call has come over it. on_start, on_end: called once each."""

    __slots__ = (
        "_begun",
        "_busy",
        "_head_bytes",
        "_head_since",
        "_is_answering",
        "_refuse",
        "_since",
        "_until",
        "known",
        "on_end",
        "on_start",
    )

    def __init__(self, manager: Connections, lifetime: float, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._refuse = manager.refuse
        self.known = False
        self.on_start: Callable[[], object] = _nothing
        self.on_end: Callable[[], object] = _nothing
        self._until = self._loop.time() + lifetime
        self._begun = 0
        self._busy = False
        self._is_answering = False
        self._since = self._loop.time()  # when the last call began or was answered
        self._head_since: float | None = None
        self._head_bytes = 0
        # Nothing that calls webhooks sends calls ahead of answers. Who does waits, so that few bytes are not counted.
        self._max_msg_queue_size, self._msg_queue_resume_size = 2, 1

    @property
    def is_old(self) -> bool:
        """Whether it has been open for as long as it should be."""
        return self._loop.time() >= self._until

    @property
    def standing_since(self) -> float | None:
        """Since when it waits for a call, or for the rest of one; None while a whole call is being answered."""
        return None if self._is_answering else self._since

    def complete(self) -> None:
        """The body of the call has come."""
        self.known = self._is_answering = True

    @property
    def is_behind(self) -> bool:
        """Whether the caller has sent what was not read yet, so that the service is the slow one of the two."""
        if self.transport is None or self.transport.is_closing():
            return False
        unread = select.poll()
        unread.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(unread.poll(0))

    def begin(self) -> None:
        """A call begins: its head is complete."""
        self._begun += 1
        self._busy = True
        self._since = self._loop.time()
        self._head_since = None

    def finish(self) -> None:
        """The answer to the call is made."""
        self._busy = self._is_answering = False
        self._since = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over."""
        super().connection_made(transport)
        self.on_start()
        self.on_start = _nothing

    def data_received(self, data: bytes) -> None:
        """Bytes have come. Ends the connection if a head is too long."""
        super().data_received(data)
        if data and not self._busy and self._request_count == self._begun:
            if self._head_since is None:
                self._head_since, self._head_bytes = self._loop.time(), 0
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.abort()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The answer to what is no HTTP. aiohttp's own would log a traceback for each call."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        problem = (message or "").partition(":")[0]  # after the colon stands what was sent, perhaps a token
        response = self._refuse(HTTPStatus.BAD_REQUEST, f"The call is no HTTP/1.1: {problem.lower()}.")
        response.force_close()
        return response

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended."""
        super().connection_lost(exc)
        self.on_end()
        self.on_end = _nothing

    def is_overdue(self, now: float) -> bool:
        """Whether the rest of a head, or the caller that should take an answer, does not come."""
        if self._head_since is not None:
            return now - self._head_since > HEAD_SECONDS
        if self._busy or now - self._since <= ANSWER_SECONDS or self.transport is None:
            return False
        return self.transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """End it at once."""
        transport = self.transport
        self.force_close()
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def _nothing() -> None:
    pass


class Connections(web.Server):
    """aiohttp's server, with connections of this kind.

    refuse: makes the answer to what is no HTTP, from a status and a text. lifetime: returns how long the next
    connection stays open.
    """

    def __init__(self, handler: Handler, refuse: Refuse, lifetime: Callable[[], float], **settings: Any) -> None:
        super().__init__(handler, max_headers=HEAD_FIELDS, lingering_time=LINGERING_SECONDS, **settings)
        self.refuse = refuse
        self._lifetime = lifetime

    def __call__(self) -> Connection:
        """A connection that was just accepted."""
        return Connection(self, self._lifetime(), loop=self._loop, **self._kwargs)
