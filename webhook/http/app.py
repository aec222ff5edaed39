"""The HTTP servers: one with TLS for the API server, one without for probes and metrics."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from urllib.parse import parse_qsl

import structlog
from aiohttp import hdrs, web
from multidict import CIMultiDict

from policies.engine.violation import FIELD_LENGTH, shortened
from webhook import logs
from webhook.configuration.settings import Listen
from webhook.heavy import SlowPolicies
from webhook.http.connections import Connection, Connections
from webhook.http.decision import Answered, Follower, Judge, ServingState
from webhook.http.review import ReviewError, UnknownGroupError
from webhook.logs import Seldom
from webhook.metrics import Metrics
from webhook.tracing import Trace
from webhook.version import VERSION

if TYPE_CHECKING:
    from webhook.opentelemetry import Tracer

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
            raise _unrouted(http.path, served.routes)
        if http.method != hdrs.METH_POST:
            raise ReviewError(f"A review is sent by POST, not by {http.method}.", 405)
        limit = _timeout(http.rel_url.raw_query_string)
        deadline = asyncio.get_running_loop().time() + limit
        body = await _read(http, min(limit, self.listen.body_seconds), held)
        cast("Connection", http.protocol).complete()
        held.complete()
        if trace is not None:
            trace.lap("receive", bytes=len(body))
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


def _unrouted(path: str, routes: Iterable[str]) -> ReviewError:
    """The error for a path that is not served: 503 for a group of another version, so that its failurePolicy counts."""
    known = ", ".join(sorted(routes))
    if _GROUP.fullmatch(path):
        told = f"This replica, cks-admission {VERSION}, does not know the group of {path}, only {known}."
        return UnknownGroupError(f"{told} Another version registered it; the failurePolicy of its entry applies.", 503)
    return ReviewError(f"{path} is not answered here; these paths are: {known}.", 404)


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
