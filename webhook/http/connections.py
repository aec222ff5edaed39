"""One connection of a caller: when its head is overdue, when its answer is, and when it has been open long enough.

aiohttp bounds the line, each field and the number of fields of a head, but neither their sum nor the time that they
take. The API server balances connections, not calls, and keeps them open; so each is ended after a while, by
`Connection: close` on an answer, which loses no call.
"""

from __future__ import annotations

import asyncio
import math
import select
import socket
from asyncio import Task
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from operator import itemgetter
from ssl import SSLContext
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from msgspec import Struct
from yarl import URL

from webhook.certificates import Certificates
from webhook.http.decision import ServingState
from webhook.logs import Seldom

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


# A handshake takes milliseconds, on a busy host tenths of a second.
HANDSHAKE_SECONDS = 5.0
# To say goodbye in TLS. A caller that does not answer is left.
GOODBYE_SECONDS = 2.0
# Handshakes under way at once. Each costs a millisecond of CPU, and a hundred KiB.
HANDSHAKES = 256
# After an error, such as one for lack of file descriptors, until the next connection is accepted.
PAUSE = 0.1
# So long a connection may wait for a call or the rest of one before those that have waited less are spared for it. An
# API server sends its first call right after the handshake, and each call at once.
PATIENCE = 1.0
SWEEP_SECONDS = 1.0
BACKLOG = 1024


class Crowd(Struct, frozen=True):
    """The limits of connections: in all, and from one address.

    reached: called with the limit when a connection is refused or ended because of it. counted: called with the number
    of connections when it changes.
    """

    most: int
    most_of_one: int
    reached: Callable[[str], object]
    counted: Callable[[int], object]


class _Guest:
    """A connection from an address; None while its handshake is under way."""

    def __init__(self, address: str, arrival: float) -> None:
        self.address = address
        self.arrival = arrival
        self.connection: Connection | None = None
        self.handshake: Task[None] | None = None

    @property
    def is_stranger(self) -> bool:
        """Whether no whole call has come from it."""
        return self.connection is None or not self.connection.known

    def end(self) -> None:
        """End it at once."""
        if self.connection is not None:
            self.connection.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class Entrance:
    """Open ports. Every connection is served by an object that `serve` makes."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        serve: Callable[[], Connection],
        context: SSLContext | None,
        crowd: Crowd,
    ) -> None:
        self.sockets = tuple(sockets)
        self._serve = serve
        self._context = context
        self._crowd = crowd
        self._guests: dict[_Guest, None] = {}  # in the order of their arrival
        self._of: Counter[str] = Counter()
        self._log = Seldom(structlog.get_logger())
        self._tasks = [asyncio.create_task(self._accept(opened)) for opened in sockets]
        self._tasks.append(asyncio.create_task(self._sweep()))

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._guests)

    def close(self) -> None:
        """Close the ports. Connections stay, and handshakes go on."""
        for task in self._tasks:
            task.cancel()
        for opened in self.sockets:
            opened.close()

    async def _accept(self, opened: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                caller, address = await loop.sock_accept(opened)
            except OSError as error:
                self._log.warning("no connection accepted", error=str(error))
                self._made_way(lambda _: True)  # it may have been the last file descriptor
                await asyncio.sleep(PAUSE)
                continue
            if limit := self._limit(str(address[0])):
                self._log.warning("connection refused", limit=limit, address=address[0], connections=self.count)
                caller.close()
            else:
                self._welcome(caller, str(address[0]))

    def _limit(self, address: str) -> str:
        """The limit that keeps a caller out; empty if there is room, or somebody made way."""
        if self._of[address] >= self._crowd.most_of_one:
            self._reached("address")
            if not self._made_way(lambda guest: guest.address == address):
                return "address"
        if self.count >= self._crowd.most:
            self._reached("connections")
            if not self._made_way(lambda _: True):
                return "connections"
        if sum(guest.connection is None for guest in self._guests) >= HANDSHAKES:
            self._reached("handshakes")
            self._made_way(lambda guest: guest.connection is None)
        return ""

    def _reached(self, limit: str) -> None:
        self._crowd.reached(limit)
        self._log.warning("too many connections", limit, limit=limit, connections=self.count)

    def _made_way(self, may: Callable[[_Guest], bool]) -> bool:
        """End a connection of those who may make way. Returns whether there was one."""
        guest = _standing(list(filter(may, self._guests)), asyncio.get_running_loop().time() - PATIENCE)
        if guest is not None:
            self._left(guest)
            guest.end()
        return guest is not None

    def _welcome(self, caller: socket.socket, address: str) -> None:
        guest = _Guest(address, asyncio.get_running_loop().time())
        self._guests[guest] = None
        self._of[address] += 1
        self._crowd.counted(self.count)
        guest.handshake = asyncio.create_task(self._shake_hands(guest, caller))

    async def _shake_hands(self, guest: _Guest, caller: socket.socket) -> None:
        def served() -> Connection:
            connection = self._serve()
            connection.on_start = lambda: setattr(guest, "connection", connection)
            connection.on_end = lambda: self._left(guest)
            return connection

        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": GOODBYE_SECONDS}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                served, caller, ssl=self._context, **(limits if self._context else {})
            )
        except OSError:  # TLS errors and time-outs are of this class, too
            self._left(guest)
        except asyncio.CancelledError:
            caller.close()
            raise
        finally:
            guest.handshake = None

    def _left(self, guest: _Guest) -> None:
        if guest in self._guests:
            del self._guests[guest]
            self._of[guest.address] -= 1
            if not self._of[guest.address]:
                del self._of[guest.address]
            self._crowd.counted(self.count)

    async def _sweep(self) -> None:
        """End connections whose callers neither send what they began, nor take what they are sent."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = asyncio.get_running_loop().time()
            connections = [guest.connection for guest in self._guests if guest.connection is not None]
            for connection in connections:
                if connection.is_overdue(now):
                    connection.abort()


def _standing(guests: Sequence[_Guest], since: float) -> _Guest | None:
    """Who has to make way, None if all are being answered: those before a time first, and of these strangers first."""
    stranger = next((guest for guest in guests if guest.is_stranger), None)
    if stranger is not None and stranger.arrival <= since:
        return stranger
    known = ((guest, guest.connection) for guest in guests if guest.connection is not None and guest.connection.known)
    waiting = ((time, guest) for guest, connection in known if (time := connection.standing_since) is not None)
    time, idle = min(waiting, key=itemgetter(0), default=(math.inf, None))
    return stranger if stranger is not None and time > since else idle


class Site(web.BaseSite):
    """The TLS port of a runner. Its callers are a crowd with limits."""

    __slots__ = ("_crowd", "_host", "_port")

    def __init__(
        self, runner: web.ServerRunner, address: tuple[str, int], context: SSLContext | None, crowd: Crowd
    ) -> None:
        super().__init__(runner, ssl_context=context, backlog=BACKLOG)
        self._host, self._port = address
        self._crowd = crowd

    @property
    def name(self) -> str:
        """The address, as a URL."""
        return f"https://{self._host}:{self._port}"

    async def start(self) -> None:
        """Open the port. Raises OSError."""
        await super().start()
        serve = self._runner.server
        assert serve is not None  # noqa: S101 - set up before
        sockets = _opened(self._host, self._port, self._backlog)
        entrance = Entrance(sockets, cast("Connections", serve), self._ssl_context, self._crowd)
        self._server = cast("asyncio.AbstractServer", entrance)  # as far as the runner uses one


def _opened(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Listening sockets for every address of a host. Raises OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            opened = socket.create_server(address[:2], family=family, backlog=backlog)
            opened.settimeout(0)
            sockets.append(opened)
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets


# How long connections may take to close after the last review.
LAST_WAIT = 0.5
# The longest time from accepting a connection to its review. A TLS handshake takes milliseconds, on a busy host tenths
# of a second.
FIRST_CALL_SECONDS = 0.5


class PortError(Exception):
    """A port cannot be opened; the text says which one and why."""


async def listen(runner: web.AppRunner, host: str, port: int) -> None:
    """Open the health port. Raises PortError."""
    await runner.setup()
    await _start(runner, web.TCPSite(runner, host, port, backlog=BACKLOG), host, port)


async def listen_for_calls(
    runner: web.ServerRunner, address: tuple[str, int], certificates: Certificates, crowd: Crowd
) -> None:
    """Open the TLS port. Raises PortError."""
    await runner.setup()
    await _start(runner, Site(runner, address, certificates.serving.context, crowd), *address)


async def _start(runner: web.BaseRunner, site: web.BaseSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        problem = f"{error.strerror or error}; is another process using it?"
        raise PortError(f"cannot listen on {host}:{port}: {problem}") from None


def address(scheme: str, runner: web.BaseRunner) -> str:
    """The URL at which a runner listens, usable in a client."""
    host, port = runner.addresses[0][:2]
    return str(URL.build(scheme=scheme, host=host, port=port))


async def finish(admission: web.ServerRunner, state: ServingState, seconds: float) -> None:
    """Close the port, and wait for the reviews in flight and on connections that were just accepted.

    aiohttp's own clean-up is not used, because it drops the rest of a handshake or of a body.
    """
    for site in list(admission.sites):
        await site.stop()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            quiet = 0.0
            while quiet < FIRST_CALL_SECONDS:
                await asyncio.sleep(0.01)
                quiet = 0.0 if state.in_flight else quiet + 0.01
