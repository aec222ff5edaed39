"""Accepts connections: how many there may be, in all and from one address, and how long a handshake may take.

Whoever comes when it is full is let in, and a connection that stands around makes way: the oldest over which no whole
call has come yet, else the one that waits longest for its next one. So connections that only open or are only kept,
handshakes that stand still and bodies that do not come keep out nobody for long.
"""

from __future__ import annotations

import asyncio
import math
import socket
from asyncio import Task
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from ssl import SSLContext
from typing import cast

import structlog
from aiohttp import web
from msgspec import Struct

from webhook.http.connection import Connection, Connections
from webhook.seldom import Seldom

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
