"""Calls made to break the service: each has an answer, none has a 500, and the service goes on."""

import gzip
import zlib
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.builders import Json, pod
from support.service.reviews import RESERVED, TODAY, UID, answer_of, body, refused_body
from support.service.servers import Serve, default_rules
from support.service.wire import JSON, connected, head

from policies.engine.engine import mutate, validate
from policies.engine.facts import StaticFacts
from webhook.http.app import MAX_BODY
from webhook.http.decision import Served
from webhook.http.review import encode


@cache
def _default() -> Served:
    return Served(default_rules(), StaticFacts(TODAY))


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        pytest.param(b"hello\r\n\r\n", "invalid method encountered", id="another-protocol"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "", id="tls"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", id="http-2"),
        pytest.param(
            head(length=0, headers=JSON + b"A: " + b"y" * 9000 + b"\r\n"),
            "got more than 8190 bytes when reading",
            id="a-long-field",
        ),
        pytest.param(
            head(length=0, headers=b"".join(b"A%d: b\r\n" % number for number in range(70))),
            "too many headers received",
            id="many-fields",
        ),
        pytest.param(head(length=-1), "", id="negative-length"),
        pytest.param(head(length=10**30), "", id="length-without-end"),
        pytest.param(head(length=3, headers=JSON + b"Content-Length: 4\r\n"), "", id="two-lengths"),
        pytest.param(head(length=3, headers=JSON + b"Transfer-Encoding: chunked\r\n"), "", id="length-and-chunks"),
        pytest.param(head() + b"zz\r\nabc\r\n", "", id="a-chunk-without-size"),
        pytest.param(head(headers=JSON + b"a b: c\r\n", length=0), "", id="a-header-with-a-space"),
    ],
)
async def test_what_is_no_http_is_refused(
    serve: Serve, sent: bytes, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is 400 and the end of that connection, told without what was sent and without a traceback; the next serves."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        await wire.send(sent)
        reply = await wire.reply()
        assert await wire.ended()
    async with connected(running.port) as wire:
        assert (await wire.call(refused_body())).status == 200

    assert reply.status == 400
    assert reply.text == f"The call is no HTTP/1.1: {problem}.\n" or not problem
    assert caplog.records == []
    assert running.metrics.rejected_calls.labels("400")._value.get() == 1


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
async def test_a_bad_body_is_a_bad_call(serve: Serve, path: str) -> None:
    """Whatever the body is, both paths say 400 in plain text, and the connection serves the next review."""
    running = await serve(_default())
    endless = body(pod(labels=RESERVED)).replace(b'"true"', b"1" * 10_000)
    bad = (b"hello", b"{}", b"\0" * 1000, b"[" * 1_000_000, b'{"a":' * 1_000_000, endless)

    async with connected(running.port) as wire:
        for sent in bad:
            reply = await wire.call(sent, path)
            assert (reply.status, reply.headers["content-type"]) == (400, "text/plain; charset=utf-8")
            assert reply.text.endswith(".\n")
        assert answer_of((await wire.call(refused_body())).body)["allowed"] is False

    rejected = f'cks_admission_rejected_calls_total{{status="400"}} {len(bad)}.0\n'
    assert rejected in (await running.get("/metrics")).text


@pytest.mark.parametrize(
    ("headers", "sent", "status"),
    [
        pytest.param(b"Content-Type: application/\xff\r\n", body(pod()), 415, id="content-type-no-utf-8"),
        pytest.param("Content-Type: ä/ö\r\n".encode(), body(pod()), 415, id="content-type-no-ascii"),
        pytest.param(b"Content-Type: \r\n", body(pod()), 415, id="content-type-empty"),
        pytest.param(JSON + b"Content-Encoding: gzip\r\n", gzip.compress(body(pod())), 200, id="gzip"),
        pytest.param(JSON + b"Content-Encoding: gzip\r\n", body(pod()), 400, id="gzip-that-is-none"),
        pytest.param(JSON + b"Content-Encoding: gzip\r\n", gzip.compress(body(pod()))[:-20], 400, id="gzip-cut-off"),
        pytest.param(JSON + b"Content-Encoding: gzip\r\n", gzip.compress(b" " * (MAX_BODY + 1)), 413, id="gzip-bomb"),
        pytest.param(JSON + b"Content-Encoding: deflate\r\n", zlib.compress(body(pod())), 200, id="deflate"),
        pytest.param(JSON + b"Content-Encoding: deflate\r\n", b"\xff" * 100, 400, id="deflate-that-is-none"),
        pytest.param(JSON + b"Expect: the-unexpected\r\n", body(pod()), 200, id="an-unknown-expectation"),
        pytest.param(JSON + b"Upgrade: h2c\r\nConnection: upgrade\r\n", body(pod()), 200, id="upgrade"),
        pytest.param(JSON + b"X: " + b"x" * 10_000 + b"\r\n", body(pod()), 400, id="long-header"),
    ],
)
async def test_odd_headers_have_an_answer(serve: Serve, headers: bytes, sent: bytes, status: int) -> None:
    """Headers that no API server sends lead to an answer of the 200s or 400s."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        reply = await wire.call(sent, headers=headers)

    assert reply.status == status


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/validate/%ff", 404, id="no-utf-8"),
        pytest.param("/validate/%00", 404, id="nul"),
        pytest.param("/validate/a%2Fb", 404, id="slash"),
        pytest.param("/validate/..%2f..%2fetc", 404, id="dots"),
        pytest.param("/validate/%0d%0aSet-Cookie:%20x", 404, id="line-break"),
        pytest.param("/validate/" + "x" * 5000, 404, id="long"),
        pytest.param("/validate?timeout=%ff", 400, id="time-out-no-utf-8"),
        pytest.param("/validate?timeout=%00", 400, id="time-out-nul"),
        pytest.param("/validate?timeout=" + "9" * 5000 + "s", 200, id="time-out-without-end"),
        pytest.param("/validate?timeout=0s", 200, id="time-out-of-nothing"),
        pytest.param("/validate?timeout=1s&timeout=2s&a=b", 200, id="time-out-twice"),
        pytest.param("/validate?%zz=%", 200, id="broken-escapes"),
    ],
)
async def test_odd_paths_have_an_answer(serve: Serve, path: str, status: int) -> None:
    """Paths and queries that no API server sends lead to an answer of the 200s or 400s, with no header of theirs."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        reply = await wire.call(body(pod()), path)

    assert reply.status == status
    assert "set-cookie" not in reply.headers


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.sampled_from(list(RESERVED)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*RESERVED, "key", "operator"]), inner),
    max_leaves=5,
)
_FIELDS = ("metadata.labels", "metadata.annotations", "metadata.ownerReferences", "metadata", "spec")
_CONTAINERS = ("containers", "initContainers", "volumes", "resourceClaims")
_SPEC = (*_CONTAINERS, "tolerations", "nodeSelector", "affinity", "template")
_PLACES = [*_FIELDS, *(f"spec.{field}" for field in _SPEC), *(f"spec.template.spec.{field}" for field in _SPEC[:-1])]


@settings(max_examples=200)
@example(changes={"metadata": "x"}, old=None, kind="Pod")
@example(changes={"metadata.annotations": ["y"], "metadata.ownerReferences": "x"}, old=None, kind="Pod")
@example(changes={"spec.containers": [{"resources": {"limits": ["x"]}}]}, old=None, kind="Pod")
@given(
    changes=st.dictionaries(st.sampled_from(_PLACES), _JUNK, max_size=4),
    old=st.dictionaries(st.sampled_from(_PLACES), _JUNK, max_size=2) | st.none(),
    kind=st.sampled_from(["Pod", "DaemonSet", "Deployment", "Node", "CronJob"]),
)
def test_no_object_makes_a_rule_fail(changes: Json, old: Json | None, kind: str) -> None:
    """Whatever stands in the fields that rules read, new or old, every rule comes to a decision."""
    served = _default()
    sent = body(_patched(kind, changes), None if old is None else _patched(kind, old))

    for path, run in (("/mutate", mutate), ("/validate", validate)):
        answer = run(served.routes[path].decode(sent), served.ruleset, served.facts)
        assert [decision.failure for decision in answer.decisions if decision.failure] == []
        assert answer_of(encode(UID, answer))["allowed"] is (path == "/mutate" or answer.allowed)


def _patched(kind: str, changes: Json) -> Json:
    """An object of a kind with values at places; a place whose parent is no map is left out."""
    obj: Json = {"apiVersion": "apps/v1" if kind in ("DaemonSet", "Deployment") else "v1", "kind": kind, "metadata": {}}
    for path, value in changes.items():
        *parents, last = path.split(".")
        holder: Any = obj
        for parent in parents:
            holder = holder.setdefault(parent, {}) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            holder[last] = value
    return obj
