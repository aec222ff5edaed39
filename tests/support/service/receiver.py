"""A receiver of traces that reads OpenTelemetry's protocol by OpenTelemetry's own definition of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from support.patience import PATIENCE

from webhook.tracing import Value

_TYPE = "application/x-protobuf"


class Received(NamedTuple):
    """A span. trace, own, parent: ids as hexadecimal text; parent is empty for one that begins a trace."""

    name: str
    trace: str
    own: str
    parent: str
    kind: str
    start: int
    end: int
    attributes: Mapping[str, Value]
    sender: Mapping[str, Value]


class Receiver:
    """What was received."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.address = ""

    async def take(self, http: web.Request) -> web.Response:
        """Take some spans."""
        assert http.headers["Content-Type"] == _TYPE
        for resource in ExportTraceServiceRequest.FromString(await http.read()).resource_spans:
            sender = _values(resource.resource.attributes)
            self.spans += [_received(span, sender) for scope in resource.scope_spans for span in scope.spans]
        return web.Response(body=ExportTraceServiceResponse().SerializeToString(), content_type=_TYPE)

    def of(self, trace: str) -> list[Received]:
        """The spans of a trace, by their beginnings."""
        return sorted((span for span in self.spans if span.trace == trace), key=lambda span: (span.start, -span.end))


def _received(span: Span, sender: Mapping[str, Value]) -> Received:
    return Received(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        Span.SpanKind.Name(span.kind),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _values(span.attributes),
        sender,
    )


def _values(attributes: object) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in attributes}  # type: ignore[attr-defined]


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(item.string_value for item in value.array_value.values)
    read: Value = getattr(value, str(kind))
    return read


@contextmanager
def receiver_aside() -> Iterator[Receiver]:
    """A receiver in a thread of its own, for those who do not run an event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    receiver = receiving()
    try:
        yield asyncio.run_coroutine_threadsafe(receiver.__aenter__(), loop).result(PATIENCE)
        asyncio.run_coroutine_threadsafe(receiver.__aexit__(None, None, None), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver on a port of this machine."""
    receiver = Receiver()
    application = web.Application()
    application.router.add_post("/v1/traces", receiver.take)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        receiver.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield receiver
    finally:
        await asyncio.shield(runner.cleanup())
