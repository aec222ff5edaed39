"""The load: a few keep-alive TLS connections. Each sends its next review when it has the answer to the last one."""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import uvloop

from benchmarks.bodies import with_uid
from benchmarks.process import CpuClock

CONNECTIONS = 8
WARM_UP = 0.4
# Fewer answers are no sample: on a busy machine a run lasts until there are so many, but no longer than some seconds.
FEWEST, LONGEST = 40, 30.0
# The headers that kube-apiserver 1.36 sends, as recorded by `python -m benchmarks.record`.
HEAD = (
    "POST {path}?timeout=10s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: kube-apiserver-admission\r\n"
    "Content-Length: {length}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
    "Accept-Encoding: gzip\r\n\r\n"
)


class LoadError(Exception):
    """A wrong answer, or no answer."""


class Sample(NamedTuple):
    """The results of one run. Latencies in seconds, CPU in seconds per request, shares of one core."""

    rate: float
    p50: float
    p99: float
    cpu: float
    server_busy: float

    @property
    def capacity(self) -> float:
        """Requests per second of the server's processor time, which is its rate if it has a core to itself."""
        return 1 / self.cpu

    def figure(self, name: str) -> float:
        """One of the figures, by its name."""
        return float(getattr(self, name))


class Exchange(NamedTuple):
    """The request that a connection sends again and again, and the test that every answer has to pass."""

    request: bytes
    accepts: Callable[[bytes], bool]


class Connection(asyncio.Protocol):
    """One keep-alive connection, which records how long each answer to its request took."""

    def __init__(self, exchange: Exchange, latencies: list[float], failed: asyncio.Future[None]) -> None:
        self._request, self._accepts = exchange
        self._latencies = latencies
        self._failed = failed
        self._received = b""
        self._transport: asyncio.Transport
        self._sent = 0.0
        self._open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first review."""
        self._transport = cast("asyncio.Transport", transport)
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take an answer, or a part of it, and send the next review after a whole one."""
        data = self._received + data
        if not is_whole(data):
            self._received = data
            return
        now = time.perf_counter()
        self._latencies.append(now - self._sent)
        self._received = b""
        if not self._accepts(data):
            self._fail(f"a wrong answer: {data[:400]!r}")
        elif self._open:
            self._sent = now
            self._transport.write(self._request)

    def connection_lost(self, error: Exception | None) -> None:
        """End the run, unless the load itself closed the connection."""
        if self._open:
            self._fail(f"the server closed a connection: {error}")

    def close(self) -> None:
        """Send no more reviews."""
        self._open = False
        self._transport.close()

    def _fail(self, text: str) -> None:
        if not self._failed.done():
            self._failed.set_exception(LoadError(text))


def is_whole(data: bytes) -> bool:
    """Whether the whole HTTP response has arrived: as many bytes as it announces, or the last chunk."""
    head = data.find(b"\r\n\r\n")
    at = data.find(b"Content-Length: ", 0, head)
    if at < 0:
        return head >= 0 and data.endswith(b"\r\n0\r\n\r\n")
    return head >= 0 and len(data) >= head + 4 + int(data[at + 16 : data.find(b"\r\n", at)])


def admits(response: bytes, uid: bytes) -> bool:
    """Whether a response answers the review with this uid, and allows it."""
    return response.startswith(b"HTTP/1.1 200 ") and uid in response and b'"allowed":true' in response


def refuses(response: bytes, uid: bytes) -> bool:
    """Whether a response answers the review with this uid, and refuses it."""
    return response.startswith(b"HTTP/1.1 200 ") and uid in response and b'"allowed":false' in response


def drive(port: int, path: str, sent: bytes, server: CpuClock, seconds: float, *, refused: bool = False) -> Sample:
    """Put reviews on one path of the server on a port of 127.0.0.1 for some seconds. Raises LoadError.

    refused: whether each review has to be refused.
    """
    exchanges = [_review(port, path, sent, number, refuses if refused else admits) for number in range(CONNECTIONS)]
    return put(port, exchanges, context(), server, seconds)


def _review(port: int, path: str, sent: bytes, number: int, accepts: Callable[[bytes, bytes], bool]) -> Exchange:
    uid = f"00000000-0000-4000-8000-{number:012}"
    content = with_uid(sent, uid)
    head = HEAD.format(path=path, port=port, length=len(content)).encode()
    known = f'"uid":"{uid}"'.encode()
    return Exchange(head + content, lambda response: accepts(response, known))


def put(port: int, exchanges: Sequence[Exchange], tls: ssl.SSLContext, server: CpuClock, seconds: float) -> Sample:
    """Put load on the server on a port of 127.0.0.1 for some seconds, a connection for each exchange.

    Raises LoadError.
    """
    gc.collect()
    gc.disable()  # a pause here would be counted as the server's latency
    try:
        return uvloop.run(_put(port, exchanges, tls, server, seconds))
    finally:
        gc.enable()


async def _put(
    port: int, exchanges: Sequence[Exchange], tls: ssl.SSLContext, server: CpuClock, seconds: float
) -> Sample:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    failed: asyncio.Future[None] = loop.create_future()
    connections = [Connection(exchange, latencies, failed) for exchange in exchanges]
    for connection in connections:
        await loop.create_connection(lambda c=connection: c, "127.0.0.1", port, ssl=tls)  # type: ignore[misc]
    await _answered(latencies, failed, WARM_UP)
    latencies.clear()
    server_before, before = server.seconds(), time.perf_counter()
    await _answered(latencies, failed, seconds)
    elapsed = time.perf_counter() - before
    server_cpu, measured = server.seconds() - server_before, len(latencies)
    for connection in connections:
        connection.close()
    if failed.done():
        failed.result()
    if not measured:
        raise LoadError(f"no answer from port {port} within {seconds} s")
    ordered = sorted(latencies[:measured])
    return Sample(
        rate=measured / elapsed,
        p50=ordered[measured // 2],
        p99=ordered[measured * 99 // 100],
        cpu=server_cpu / measured,
        server_busy=server_cpu / elapsed,
    )


async def _answered(latencies: Sequence[float], failed: asyncio.Future[None], seconds: float) -> None:
    """Wait some seconds, or longer for the fewest answers."""
    end = time.perf_counter() + LONGEST
    await asyncio.wait([failed], timeout=seconds)
    while len(latencies) < FEWEST and time.perf_counter() < end and not failed.done():
        await asyncio.wait([failed], timeout=0.01)


def context() -> ssl.SSLContext:
    """A TLS 1.3 context that accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
