"""The TLS port, for the API server: its connections, the room for bodies and calls, and the handler of reviews.

aiohttp bounds the line, each field and the number of fields of a head, but neither their sum nor the time that they
take, and keeps any number of connections. The API server balances connections, not calls, and keeps them open; so each
is ended after a while, by `Connection: close` on an answer, which loses no call.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import select
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import lru_cache
from http import HTTPStatus
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from urllib.parse import parse_qsl

import structlog
from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from policies.engine.violation import FIELD_LENGTH, shortened
from webhook import logs
from webhook.configuration.settings import Listen
from webhook.heavy import SlowPolicies
from webhook.http.decision import Answered, Follower, Judge, ServingState
from webhook.http.health import BACKLOG, LAST_WAIT, PortError, address
from webhook.http.review import ReviewError, UnknownGroupError
from webhook.logs import Seldom
from webhook.metrics import Metrics
from webhook.tracing import Trace
from webhook.version import VERSION

if TYPE_CHECKING:
    from webhook.opentelemetry import Tracer

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
# The API server keeps idle connections for 90 s and does not repeat a POST on a closed one, so this server must keep
# them longer (k8s.io/apimachinery net.SetTransportDefaults, IdleConnTimeout).
KEEP_ALIVE = 120.0
# A handshake takes milliseconds, on a busy host tenths of a second.
TLS_HANDSHAKE_SECONDS = 5.0
# A caller that does not answer the end of TLS is left.
TLS_SHUTDOWN_SECONDS = 2.0
# So long a connection may wait for a call or the rest of one before those that have waited less are spared for it. An
# API server sends its first call right after the handshake, and each call at once.
PATIENCE = 1.0
SWEEP_SECONDS = 1.0
# Handshakes under way at once. Each costs a millisecond of CPU, and a hundred KiB.
HANDSHAKES = 256
# After an error, such as one for lack of file descriptors, until the next connection is accepted.
PAUSE = 0.1
# The longest time from accepting a connection to its review, while a port closes.
FIRST_CALL_SECONDS = 0.5


class Connection(RequestHandler):
    """A connection of a caller.

    address: of the caller. has_served: whether a whole call has come over it. is_answering: whether it does not wait
    for a call, or for the rest of one. since: when it was accepted, or its last call began or was answered.
    """

    __slots__ = ("_begun", "_busy", "_head_bytes", "_head_since", "_until", "address", "has_served",
                 "is_answering", "owner", "since")  # fmt: skip

    def __init__(self, owner: Connections, lifetime: float, **settings: Any) -> None:
        super().__init__(owner, **settings)
        self.owner = owner
        self.address = ""
        self.has_served = False
        self.since = self._loop.time()
        self._until = self.since + lifetime
        self._begun = 0
        self._busy = self.is_answering = False
        self._head_since: float | None = None
        self._head_bytes = 0
        # Nothing that calls webhooks sends calls ahead of answers. Who does waits, so that few bytes are not counted.
        self._max_msg_queue_size, self._msg_queue_resume_size = 2, 1

    @property
    def is_old(self) -> bool:
        """Whether it has been open for as long as it should be."""
        return self._loop.time() >= self._until

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
        self.since = self._loop.time()
        self._head_since = None

    def complete(self) -> None:
        """The body of the call has come."""
        self.has_served = self.is_answering = True

    def finish(self) -> None:
        """The answer to the call is made."""
        self._busy = self.is_answering = False
        self.since = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over."""
        super().connection_made(transport)
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self.owner.enter(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended."""
        super().connection_lost(exc)
        self.owner.leave(self)

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
        response = self.owner.refuse(HTTPStatus.BAD_REQUEST, f"The call is no HTTP/1.1: {problem.lower()}.")
        response.force_close()
        return response

    def is_overdue(self, now: float) -> bool:
        """Whether the rest of a head, or the caller that should take an answer, does not come."""
        if self._head_since is not None:
            return now - self._head_since > HEAD_SECONDS
        if self._busy or now - self.since <= ANSWER_SECONDS or self.transport is None:
            return False
        return self.transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """End it at once."""
        transport = self.transport
        self.force_close()
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class Connections(web.Server):
    """aiohttp's server, with a limit of connections in all, and of those from one address.

    Whoever comes when it is full is let in, and an idle connection makes way: one that waits for its first whole call
    for longer than PATIENCE, else the one that waits longest. So connections that only open or are only kept, and
    bodies that do not come, keep out nobody for long.

    refuse: makes the answer to what is no HTTP, from a status and a text.
    """

    def __init__(self, handler: Handler, refuse: Refuse, listen: Listen, metrics: Metrics, **settings: Any) -> None:
        super().__init__(
            handler, max_headers=HEAD_FIELDS, lingering_time=LINGERING_SECONDS, keepalive_timeout=KEEP_ALIVE,
            access_log=None, **settings,
        )  # fmt: skip
        self.refuse = refuse
        self._listen = listen
        self._metrics = metrics
        self._open: dict[Connection, None] = {}  # in the order of their arrival
        self._handshakes: dict[asyncio.Task[None], None] = {}  # likewise
        self._accepting: list[asyncio.Task[None]] = []
        self._log = Seldom(structlog.get_logger())

    def __call__(self) -> Connection:
        """A connection that was just accepted. Lifetimes differ, so that not all are opened again at once."""
        seconds = self._listen.connection_seconds
        lifetime = seconds * random.uniform(0.75, 1.25) if seconds else math.inf  # noqa: S311 - no secret
        return Connection(self, lifetime, loop=self._loop, **self._kwargs)

    def enter(self, connection: Connection) -> None:
        """Count a connection. If there are too many, another one ends, or this one if all others are being answered."""
        others = [other for other in self._open if other.address == connection.address]
        self._open[connection] = None
        limit = ""
        if len(others) >= self._listen.max_connections_per_address:
            limit = "address"
        elif len(self._open) > self._listen.max_connections:
            others, limit = list(self._open)[:-1], "connections"
        if limit:
            self._reached(limit)
            ended = self._idlest(others, connection.since) or connection
            if ended is connection:
                address, count = connection.address, len(self._open)
                self._log.warning("connection refused", limit=limit, address=address, connections=count)
            self.leave(ended)
            ended.abort()
        self._metrics.connections.set(len(self._open))

    def leave(self, connection: Connection) -> None:
        """Count a connection no more."""
        self._open.pop(connection, None)
        self._metrics.connections.set(len(self._open))

    def _idlest(self, connections: Sequence[Connection], now: float) -> Connection | None:
        """The connection that makes way; None if all are being answered."""
        idle = (one for one in connections if not one.is_answering)
        return min(idle, key=lambda one: (one.has_served or one.since > now - PATIENCE, one.since), default=None)

    def _reached(self, limit: str) -> None:
        self._metrics.no_room.labels(limit).inc()
        self._log.warning("too many connections", limit, limit=limit, connections=len(self._open))

    @asynccontextmanager
    async def port(self, context: SSLContext) -> AsyncIterator[str]:
        """The port, open during the block, unless `finish` closes it: its URL. Then its connections end.

        Raises PortError.
        """
        host, port = self._listen.host, self._listen.port
        try:
            known = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            with ExitStack() as opened:
                sockets = [
                    opened.enter_context(socket.create_server(place[:2], family=family, backlog=BACKLOG))
                    for family, place in dict.fromkeys((family, place) for family, _, _, _, place in known)
                ]
                opened.pop_all()
        except OSError as error:
            raise PortError(host, port, error) from None
        for listening in sockets:
            listening.settimeout(0)
        self._accepting = [asyncio.create_task(self._accept(listening, context)) for listening in sockets]
        sweep = asyncio.create_task(self._sweep())
        try:
            yield address("https", *sockets[0].getsockname()[:2])
        finally:
            for task in (sweep, *self._accepting, *self._handshakes):
                task.cancel()
            await asyncio.sleep(0)  # what has just come is begun before idle connections end
            self.pre_shutdown()
            await self.shutdown(LAST_WAIT)

    async def finish(self, in_flight: Callable[[], int], seconds: float) -> None:
        """Close the port, and wait for the reviews in flight and on connections that were just accepted.

        aiohttp's own clean-up is not enough, because it drops the rest of a handshake or of a body.
        """
        for task in self._accepting:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                quiet = 0.0
                while quiet < FIRST_CALL_SECONDS:
                    await asyncio.sleep(0.01)
                    quiet = 0.0 if in_flight() else quiet + 0.01

    async def _accept(self, listening: socket.socket, context: SSLContext) -> None:
        """Accept connections. The oldest handshake ends where there are too many, or files cannot be opened any more.

        A server of asyncio has as many handshakes under way as come, and uvloop's ends newcomers for want of files.
        """
        with listening:
            while True:
                try:
                    caller, _ = await self._loop.sock_accept(listening)
                except OSError as error:
                    self._log.warning("no connection accepted", error=str(error))
                    self._free()
                    await asyncio.sleep(PAUSE)
                    continue
                if len(self._handshakes) >= HANDSHAKES:
                    self._reached("handshakes")
                    self._free()
                handshake = asyncio.create_task(self._shake_hands(caller, context))
                self._handshakes[handshake] = None
                handshake.add_done_callback(lambda ended: self._handshakes.pop(ended, None))

    def _free(self) -> None:
        """End the oldest handshake or, without any, the connection that makes way."""
        if oldest := next(iter(self._handshakes), None):
            del self._handshakes[oldest]
            oldest.cancel()
        elif idlest := self._idlest([*self._open], self._loop.time()):
            idlest.abort()

    async def _shake_hands(self, caller: socket.socket, context: SSLContext) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self, caller, ssl=context,
                ssl_handshake_timeout=TLS_HANDSHAKE_SECONDS, ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
            )  # fmt: skip
        except OSError:  # TLS errors and time-outs are of this class, too
            pass
        except asyncio.CancelledError:
            caller.close()
            raise

    async def _sweep(self) -> None:
        """End connections whose callers neither send what they began, nor take what they are sent."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = self._loop.time()
            for connection in list(self._open):
                if connection.is_overdue(now):
                    connection.abort()


Shortage = Literal["bytes", "places", "time"]
# Nearly every review is smaller. An eighth of the room is kept for such bodies, while large ones are being answered.
SMALL = 128 * 1024


class NoRoom(Exception):  # noqa: N818 - a state, which the caller may wait out
    """There is no room for a call now. `of`: what there is too little of; time, if bodies are not read as they come."""

    def __init__(self, of: Shortage) -> None:
        super().__init__(of)
        self.of = of


class Room:
    """The room of a process. size: bytes for bodies. places: calls that are answered at once."""

    def __init__(self, size: int, places: int) -> None:
        self.size = size
        self.places = places
        self.held = 0
        self.answering = 0
        self.arriving: set[Body] = set()


class Body:
    """The bytes of one body, from the first one to the answer; a context that gives them back.

    refuse: called if it has to make way for another one.
    """

    def __init__(self, room: Room, refuse: Callable[[NoRoom], object]) -> None:
        self.size = 0
        self.refuse = refuse
        self._room = room
        self._has_place = False
        room.arriving.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def grow(self, count: int) -> None:
        """Count bytes that have arrived. The largest bodies make way for smaller ones. Raises NoRoom."""
        room = self._room
        self.size += count
        room.held += count
        size = room.size if self.size <= SMALL else room.size - room.size // 8
        while room.held > size:
            largest = max(room.arriving, key=lambda body: body.size, default=self)
            if largest.size <= self.size:
                raise NoRoom("bytes")
            largest.leave()
            largest.refuse(NoRoom("bytes"))

    def complete(self) -> None:
        """Take a place. Raises NoRoom."""
        if self._room.answering >= self._room.places:
            raise NoRoom("places")
        self._room.arriving.discard(self)
        self._room.answering += 1
        self._has_place = True

    def leave(self) -> None:
        """Give back the bytes and the place."""
        self._room.arriving.discard(self)
        self._room.held -= self.size
        self._room.answering -= self._has_place
        self.size, self._has_place = 0, False


# The API server accepts writes of up to 3 MiB (k8s.io/apiserver MaxRequestBodyBytes). A review contains the object, the
# old object and a few KiB more: 6 MiB, and 2 MiB for defaults and escapes in JSON.
MAX_BODY = 8 * 1024 * 1024
# The default in admissionregistration.k8s.io/v1, for callers that send none.
DEFAULT_TIMEOUT = 10.0
# The API server's maximum for a webhook. A longer time-out would only occupy a place.
LONGEST_TIMEOUT = 30.0
# Subtracted from the caller's time-out, so that the answer arrives before the caller gives up.
MARGIN = 0.25
RETRY_AFTER = "1"
_SHORTAGES: Mapping[Shortage, str] = {
    "bytes": "bodies of over listen.maxBytesInFlight",
    "places": "over listen.maxInFlight calls",
    "time": "the body was not read within listen.bodySeconds or ?timeout=",
}

_GROUP = re.compile(r"/(mutate|validate)/[a-z0-9-]{1,63}")
_TIMEOUT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)\Z")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_TEXT_HEADERS: dict[str, str] = {hdrs.CONTENT_TYPE: "text/plain; charset=utf-8"}
_JSON = "application/json"
_JSON_HEADERS = CIMultiDict({hdrs.CONTENT_TYPE: _JSON})


class Service:
    """The handlers and what they share. followers: are told of each answer. tracing: None if there are no traces."""

    def __init__(
        self, state: ServingState, measures: Metrics, listen: Listen, slow: SlowPolicies | None = None
    ) -> None:
        self.state = state
        self.slow = slow or SlowPolicies(measures)
        self.judge = Judge(measures, self.slow)
        self.metrics = measures
        self.listen = listen
        self.followers: tuple[Follower, ...] = ()
        self.tracing: Tracer | None = None
        self.room = Room(listen.max_bytes_in_flight, listen.max_in_flight)
        self.log = structlog.get_logger().bind()  # a logger, not a proxy that looks one up at each call
        self.seldom = Seldom(self.log)
        measures.in_flight.set_function(lambda: state.in_flight)
        measures.bytes_in_flight.set_function(lambda: self.room.held)

    def connections(self) -> Connections:
        """`POST /mutate` and `/validate` with all rules, `/mutate/<group>` and `/validate/<group>` with some.

        It is a bare server, because an application's routing and signals cost about as much per review as the rules.
        """
        loop = asyncio.get_running_loop()

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop)

        return Connections(self.review, self._refuse_call, self.listen, self.metrics, request_factory=request)

    async def review(self, http: web.BaseRequest) -> web.Response:
        """Answer one AdmissionReview; any other call gets an HTTP error."""
        state, connection = self.state, cast("Connection", http.protocol)
        connection.begin()
        state.in_flight += 1
        trace = None if self.tracing is None else self.tracing.begin(http.headers)
        try:
            with Body(self.room, http.content.set_exception) as body:
                response = await self._answer(http, body, trace)
        except UnknownGroupError as error:
            # The API server tries again, and a new connection may reach a replica that knows the group.
            response = self._refuse_call(error.status, str(error), {hdrs.RETRY_AFTER: RETRY_AFTER})
            response.force_close()
        except ReviewError as error:
            response = self._refuse_call(error.status, str(error))
        except NoRoom as shortage:
            self.metrics.no_room.labels(shortage.of).inc()
            held, answering = self.room.held, self.room.answering
            self.seldom.warning("no room", shortage.of, limit=shortage.of, bytes=held, answering=answering)
            self.metrics.rejected_calls.labels("503").inc()
            headers = {**_TEXT_HEADERS, hdrs.RETRY_AFTER: RETRY_AFTER}
            text = f"Too much at once: {_SHORTAGES[shortage.of]}; try again.\n"
            response = web.Response(status=503, text=text, headers=headers)
        finally:
            state.in_flight -= 1
            connection.finish()
        if state.draining or connection.is_old:
            response.force_close()
        if trace is not None and self.tracing is not None:
            trace.end(http.path if http.path in state.served.routes else "", response.status)
            self.tracing.finish(trace)
        return response

    async def _answer(self, http: web.BaseRequest, held: Body, trace: Trace | None) -> web.Response:
        served = self.state.served
        route = served.routes.get(http.path)
        if route is None:
            known = ", ".join(sorted(served.routes))
            if not _GROUP.fullmatch(http.path):
                raise ReviewError(f"{http.path} is not answered here; these paths are: {known}.", 404)
            # 503 for a group of another version, so that its failurePolicy counts.
            reason = f"This replica, cks-admission {VERSION}, does not know the group of {http.path}, only {known}."
            text = f"{reason} Another version registered it; the failurePolicy of its entry applies."
            raise UnknownGroupError(text, 503)
        if http.method != hdrs.METH_POST:
            raise ReviewError(f"A review is sent by POST, not by {http.method}.", 405)
        limit = _timeout(http.rel_url.raw_query_string)
        deadline = asyncio.get_running_loop().time() + limit
        body = await _read(http, min(limit, self.listen.body_seconds), held)
        cast("Connection", http.protocol).complete()
        held.complete()
        if trace is not None:
            trace.part("receive", bytes=len(body))
        started = time.perf_counter()
        reviewed = await self.judge.review(body, route, served, deadline - MARGIN, trace)
        reply, request, answer, *_ = reviewed
        seconds = time.perf_counter() - started
        if trace is not None:
            trace.conclude(request, answer)
        self.metrics.observe(route.phase, request, answer, seconds)
        logs.log_answer(self.log, route.phase, request, answer)
        logs.log_skips(self.seldom, request, answer)
        for follower in self.followers:
            follower(Answered(body, http.path, route, served, reviewed, seconds))
        return web.Response(body=reply, headers=_JSON_HEADERS)

    async def list_paths(self, _http: web.Request) -> web.Response:
        """The paths at which reviews are answered, for `manage`."""
        return web.json_response(sorted(self.state.served.routes))

    def _refuse_call(self, status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
        self.metrics.rejected_calls.labels(str(status)).inc()
        self.seldom.info("call rejected", status, status=status, reason=shortened(text, FIELD_LENGTH))
        # The refusal quotes a header, which may contain invalid UTF-8.
        body = f"{text}\n".encode(errors="replace")
        return web.Response(status=status, body=body, headers={**_TEXT_HEADERS, **(headers or {})})


@lru_cache(maxsize=64)  # an API server sends only the few time-outs of its configurations
def _timeout(query: str) -> float:
    """The seconds that the caller waits. The API server sends them as `?timeout=10s`."""
    text = dict(parse_qsl(query, keep_blank_values=True)).get("timeout")
    if text is None:
        return DEFAULT_TIMEOUT
    match = _TIMEOUT.match(text)
    if match is None:
        raise ReviewError(f"The query parameter timeout is {text!r}; write a duration such as 10s.")
    return min(float(match[1]) * _UNITS[match[2]], LONGEST_TIMEOUT)


async def _read(http: web.BaseRequest, seconds: float, held: Body) -> bytes:
    """The body. Raises ReviewError if it is too large, not declared as JSON or takes more than seconds, and NoRoom."""
    if http.headers.get(hdrs.CONTENT_TYPE) != _JSON and http.content_type != _JSON:  # the latter parses the header
        content_type = http.headers.get(hdrs.CONTENT_TYPE, "none")
        raise ReviewError(f"Expected the Content-Type application/json, found {content_type}.", 415)
    if http.content_length is not None and http.content_length > MAX_BODY:
        raise _too_large(f"{http.content_length} bytes, more")
    try:
        if http.content.is_eof():  # nearly always: no timer and no loop is needed
            body = http.content.read_nowait()
            held.grow(len(body))
        else:
            parts = []
            async with asyncio.timeout(seconds):
                if http.headers.get(hdrs.EXPECT, "").lower() == "100-continue":  # as curl sends before a large body
                    await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    http.writer.output_size = 0
                while held.size <= MAX_BODY and (part := await http.content.readany()):
                    held.grow(len(part))
                    parts.append(part)
            body = b"".join(parts)
    except (NoRoom, ReviewError):
        raise
    except TimeoutError:
        if http.content.total_bytes > held.size or cast("Connection", http.protocol).is_behind:
            raise NoRoom("time") from None
        raise ReviewError(
            f"The body did not arrive within {seconds:g} s (listen.bodySeconds, or the caller's ?timeout=).", 408
        ) from None
    except Exception as error:  # noqa: BLE001 - a lost connection, or a body that is not encoded as its headers say
        raise ReviewError(f"The body could not be read: {type(error).__name__}.") from None
    if len(body) > MAX_BODY:
        raise _too_large("more")
    if not body:
        raise ReviewError("The body is empty; send an AdmissionReview.")
    return body


def _too_large(size: str) -> ReviewError:
    return ReviewError(
        f"The body has {size} than {MAX_BODY} bytes: the API server takes objects of up to 3 MiB, "
        "and a review holds two of them.",
        413,
    )
