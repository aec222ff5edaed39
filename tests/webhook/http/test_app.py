"""The two ports: what is answered, what is an error, who has room, and what probes see; no call breaks the service."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator
from functools import cache
from io import BytesIO
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.builders import FACTS, Json, daemon_set, pod
from support.patience import until
from support.service.reviews import (
    REFUSAL,
    RESERVED,
    UID,
    Fixed,
    NeedsNamespaces,
    answer_of,
    body,
    refused_body,
    rule,
    served,
)
from support.service.servers import Directory, Serve, default_rules, time_at_rest
from support.service.wire import JSON, connected, head

from policies.engine.engine import mutate, validate
from policies.engine.rule import POLICY_GROUPS, Mutation, RuleSet
from webhook.configuration.rules import build
from webhook.configuration.settings import Settings
from webhook.http.app import MARGIN, MAX_BODY, SMALL, Body, NoRoom, Room
from webhook.http.decision import GROUPS, Served
from webhook.http.review import encode
from webhook.version import VERSION

_GROUPS = "/validate/guard, /validate/labels, /validate/policies, /validate/policies-ignore, /validate/topologies"


@cache
def _default() -> Served:
    return Served(default_rules(), FACTS)


@pytest.mark.parametrize(
    ("path", "ran"),
    [
        ("/validate", ["labels", "guard", "topology", "tolerations", "sunk", "selectors"]),
        ("/validate/labels", ["labels"]),
        ("/validate/policies-ignore", ["topology", "tolerations", "sunk", "selectors"]),
        ("/validate/topologies", []),
        ("/mutate", ["topology", "tolerations"]),
        ("/mutate/workloads", ["topology", "tolerations"]),
        ("/mutate/pods", []),
        ("/validate/policies", []),
    ],
)
async def test_each_path_runs_its_rules(serve: Serve, path: str, ran: list[str]) -> None:
    """The bare paths run every rule of their phase that is for the object, a group's path those of the group."""
    running = await serve(_default())

    reply = await running.post(body(daemon_set()), path)

    answer = answer_of(reply.body)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert (answer["uid"], answer["allowed"], list(answer.get("auditAnnotations", {}))) == (UID, True, ran)


async def test_a_refusal_is_an_ordinary_answer(serve: Serve) -> None:
    """A refused object is HTTP 200 with the refusal inside, for its status is not the call's."""
    running = await serve(_default())

    reply = await running.post(refused_body())

    assert reply.status == 200
    assert answer_of(reply.body) == {
        "uid": UID,
        "allowed": False,
        "status": {"message": REFUSAL, "reason": "Forbidden", "code": 403, "status": "Failure"},
        "auditAnnotations": {
            "labels": "deny: metadata.labels",
            "guard": "admit",
            "topology": "admit",
            "tolerations": "admit",
            "selectors": "admit",
        },
    }


@pytest.mark.parametrize("path", ["/validate/nodes", "/mutate/labels"])
async def test_an_unknown_group_fails_the_call(serve: Serve, path: str) -> None:
    """A group of another version is neither admitted nor missing: 503, so that the entry's failurePolicy counts."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        reply = await wire.call(refused_body(), path)
        assert await wire.ended()

    known = f"/mutate, /mutate/pods, /mutate/policies, /mutate/workloads, /validate, {_GROUPS}"
    told = f"This replica, cks-admission {VERSION}, does not know the group of {path}, only {known}."
    assert (reply.status, reply.headers["retry-after"], reply.closes) == (503, "1", True)
    assert reply.text == f"{told} Another version registered it; the failurePolicy of its entry applies.\n"


async def test_other_methods_are_refused(serve: Serve) -> None:
    """Reviews are posted; every other method is 405."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD"):
            await wire.send(head("/validate", 0, method=method))
            assert (await wire.reply(has_body=method != "HEAD")).status == 405


@pytest.mark.parametrize(
    ("content_type", "found"),
    [
        ("application/json", ""),
        ("application/json; charset=utf-8", ""),
        ("APPLICATION/JSON", ""),
        (None, "none"),
        ("application/yaml", "application/yaml"),
        ("application/json-patch+json", "application/json-patch+json"),
        ("json", "json"),
    ],
)
async def test_the_content_type_must_be_json(serve: Serve, content_type: str | None, found: str) -> None:
    """A body that is not said to be JSON is 415 with what it was said to be."""
    running = await serve(_default())

    reply = await running.post(refused_body(), content_type=content_type)

    assert reply.status == (415 if found else 200)
    if found:
        assert reply.text == f"Expected the Content-Type application/json, found {found}.\n"


async def _chunks(sent: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(sent), 1 << 20):
        yield sent[start : start + (1 << 20)]


async def test_the_size_of_a_body_is_bounded(serve: Serve) -> None:
    """Over 8 MiB are 413 by the length before a byte of the body is read, and without one as soon as it has passed."""
    running = await serve(_default())
    why = "the API server takes objects of up to 3 MiB, and a review holds two of them.\n"

    async with connected(running.port) as wire:
        await wire.send(head(length=MAX_BODY + 1))
        by_length = await wire.reply()
    async with connected(running.port) as wire:
        await wire.send(head(length=None))
        async for chunk in _chunks(b" " * (MAX_BODY + 1)):
            await wire.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        in_chunks = await wire.reply()

    assert MAX_BODY == 8 << 20
    assert (by_length.status, in_chunks.status) == (413, 413)
    assert by_length.text == f"The body has {MAX_BODY + 1} bytes, more than {MAX_BODY} bytes: {why}"
    assert in_chunks.text == f"The body has more than {MAX_BODY} bytes: {why}"
    sent = refused_body().ljust(MAX_BODY)
    for data in (BytesIO(sent), _chunks(sent)):
        assert answer_of((await running.post(data)).body)["status"]["message"] == REFUSAL


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_a_rule_that_raises(serve: Serve, path: str) -> None:
    """With Fail it refuses by its name and its error's words; with Ignore a warning says so, and other rules count."""
    broken = Fixed(ValueError("no such gauge"), ValueError("no such gauge"))
    patch = {"op": "add", "path": "/metadata/annotations", "value": {}}
    fine = rule(Fixed((), Mutation((patch,))), name="fine")
    shut = await serve(served(rule(broken, policy="Fail")))
    open_ = await serve(served(rule(broken, policy="Ignore"), fine))

    refused, admitted = [answer_of((await running.post(body(pod()), path)).body) for running in (shut, open_)]

    message = (
        "Rule 'tidy' could not be evaluated (ValueError: no such gauge).\n"
        "It is set to refuse what it cannot judge. Try again; if it persists, tell the cluster's operators."
    )
    assert refused == {
        "uid": UID,
        "allowed": False,
        "status": {"message": message, "reason": "InternalError", "code": 500, "status": "Failure"},
        "auditAnnotations": {"tidy": "error: ValueError"},
    }
    changes = {"patch": admitted.get("patch"), "patchType": "JSONPatch"} if path == "/mutate" else {}
    assert admitted == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {"tidy": "error: ValueError", "fine": "patch" if changes else "admit"},
        "warnings": ["rule 'tidy' was skipped, it could not be evaluated: ValueError: no such gauge"],
        **changes,
    }


async def test_many_reviews_on_one_connection_have_each_their_own_answer(serve: Serve) -> None:
    """Reviews that are sent one after the other without waiting are answered in order, each with its uid."""
    running = await serve(_default())
    sent = [json.dumps({"x": n}).encode() if n % 5 == 0 else body(pod(), uid=f"uid-{n}") for n in range(25)]

    async with connected(running.port) as wire:
        for data in sent:
            await wire.send(head("/validate", len(data), JSON) + data)
        replies = [await wire.reply() for _ in sent]

    assert [reply.status for reply in replies] == [400 if n % 5 == 0 else 200 for n in range(25)]
    assert [answer_of(r.body)["uid"] for r in replies if r.status == 200] == [f"uid-{n}" for n in range(25) if n % 5]


def _asking(directory: Directory) -> Served:
    """A rule that needs the labels of the Namespace `team`."""
    return Served(RuleSet([rule(NeedsNamespaces("team"))]), directory.facts(), directory)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 10.0),
        ("?timeout=5s", 5.0),
        ("?timeout=1.5s", 1.5),
        ("?timeout=2500ms", 2.5),
        ("?timeout=2m", 30.0),
        ("?timeout=999999999999s", 30.0),
    ],
)
async def test_the_callers_time_out_is_the_deadline(serve: Serve, query: str, seconds: float) -> None:
    """What a look-up may take is the caller's time-out, or the API's default, at most its longest, less a margin."""
    directory = Directory({"team": {}})
    running = await serve(_asking(directory))

    with time_at_rest():
        reply = await running.post(body(pod()), f"/validate{query}")

    assert reply.status == 200
    ((_, given),) = directory.asked
    assert given == pytest.approx(seconds - MARGIN)


@pytest.mark.parametrize("written", ["", "10", "s", "-1s", "1h", "1e3s", "10s\n", "ten", "10S"])
async def test_a_time_out_that_is_no_duration_is_refused(serve: Serve, written: str) -> None:
    """A `timeout` that cannot be read is 400, and shown as it was found."""
    running = await serve(served(rule()))

    reply = await running.post(body(pod()), f"/validate?timeout={quote(written)}")

    text = f"The query parameter timeout is {written!r}; write a duration such as 10s.\n"
    assert (reply.status, reply.text) == (400, text)


async def test_a_body_that_the_service_did_not_read_in_time(serve: Serve) -> None:
    """If bytes of a body wait when its time is over, the service was the slow one: 503, and the caller comes again."""
    running = await serve(served(rule()))
    sent = body(pod())

    async with connected(running.port) as wire:
        await wire.send(head("/validate?timeout=200ms", len(sent)) + sent[:100])
        await until(lambda: running.state.in_flight == 1)
        await wire.send(sent[100:200])
        time.sleep(0.3)  # noqa: ASYNC251 - nothing else is done meanwhile, which is the point
        reply = await wire.reply()

    assert (reply.status, reply.headers["retry-after"], reply.text) == (
        503,
        "1",
        "Too much at once: the body was not read within listen.bodySeconds or ?timeout=; try again.\n",
    )
    assert 'cks_admission_no_room_total{limit="time"} 1.0' in running.metrics.expose().decode().splitlines()


async def test_a_call_over_capacity_is_told_to_come_again(serve: Serve) -> None:
    """One call more than may be handled at once is 503 with Retry-After, which the API server obeys."""
    directory = Directory({"team": {}}, asyncio.Event())
    running = await serve(_asking(directory), 1)
    assert directory.hold

    first = asyncio.create_task(running.post(body(pod())))
    await directory.reading.wait()
    second = await running.post(body(pod()))
    in_flight = running.state.in_flight
    directory.hold.set()

    assert (second.status, second.headers["retry-after"], second.text) == (
        503,
        "1",
        "Too much at once: over listen.maxInFlight calls; try again.\n",
    )
    assert in_flight == 1
    assert answer_of((await first).body)["allowed"] is True
    assert (await running.post(body(pod()))).status == 200
    assert running.state.in_flight == 0


async def test_a_call_whose_body_is_still_coming_takes_no_place(serve: Serve) -> None:
    """A slow sender keeps nobody out: only a whole body takes a place."""
    running = await serve(served(rule()), 1)

    async with connected(running.port) as slow:
        await slow.send(head(length=5000) + b"{")
        await until(lambda: running.state.in_flight)
        assert (await running.post(body(pod()))).status == 200


_MIB = 1024 * 1024


def _refused(_: NoRoom) -> None:
    raise AssertionError("nobody has to make way")


def _filled(room: Room, size: int, *, complete: bool = False) -> tuple[Body, list[str]]:
    """A body of a size, and what it was refused for so far."""
    told: list[str] = []
    body = Body(room, lambda shortage: told.append(shortage.of))
    body.grow(size)
    if complete:
        body.complete()
    return body, told


def test_a_small_body_makes_the_largest_one_that_is_arriving_make_way() -> None:
    """Who sends large bodies slowly is refused, not who comes with a small one."""
    room = Room(16 * _MIB, 10)
    first, of_first = _filled(room, 7 * _MIB)
    second, of_second = _filled(room, 6 * _MIB)

    third, of_third = _filled(room, 2 * _MIB)

    assert (of_first, of_second, of_third) == (["bytes"], [], [])
    assert (first.size, room.held) == (0, 8 * _MIB)
    for arrived in (first, second, third):
        arrived.leave()
    assert (room.held, room.answering) == (0, 0)


def test_who_finds_no_room() -> None:
    """The largest body is refused itself, and an eighth of the room is left for small ones by those being answered."""
    for size, complete, largest in ((7 * _MIB, False, 7 * _MIB), (14 * _MIB, True, SMALL)):
        room = Room(16 * _MIB, 10)
        _filled(room, size, complete=complete)
        body = Body(room, _refused)

        body.grow(largest)
        with pytest.raises(NoRoom) as shortage:
            body.grow(1)

        assert shortage.value.of == "bytes"


@given(
    st.lists(st.tuples(st.sampled_from(["new", "grow", "complete", "leave"]), st.integers(0, 9), st.integers(0, 60)))
)
def test_what_is_held_is_bounded_and_given_back(steps: list[tuple[str, int, int]]) -> None:
    """Whatever happens, no more is held than there is room for, and nothing is held in the end."""
    room = Room(100, 3)
    bodies: list[Body] = []
    answered: list[Body] = []
    for step, index, count in steps:
        if step == "new" or not bodies:
            bodies.append(Body(room, lambda _: None))
            continue
        body = bodies[index % len(bodies)]
        refused = False
        try:
            if step == "grow":
                body.grow(count)
            elif step == "complete":
                body.complete()
        except NoRoom:
            refused = True
        if refused or step == "leave":
            bodies.remove(body)
            body.leave()
        elif step == "complete":
            bodies.remove(body)
            answered.append(body)
        assert room.held <= room.size
        assert room.answering == len(answered) <= room.places
    for body in (*bodies, *answered):
        body.leave()
    assert (room.held, room.answering) == (0, 0)


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
        *(
            (path, 404)
            for path in ("/", "/validate/", "/validate/labels/x", "/Validate", "/livez", "/readyz", "/metrics")
        ),
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
    """The TLS port has the admission routes alone, not even those for probes; no path or query leads to a 500."""
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


async def test_probes_of_a_service_that_is_not_ready(serve: Serve) -> None:
    """Each gate is asked each time, and gives its reasons under its name; the end comes first, and it is alive."""
    running = await serve(served())
    reasons = ["namespaces: not listed yet", "nodes: not listed yet"]
    running.state.add_gate("cluster", lambda: reasons)
    running.state.add_gate("rules", lambda: ["none are loaded"])
    running.state.draining = True
    ready, alive = await running.get("/readyz"), await running.get("/livez")
    reasons.clear()
    running.state.draining = False
    later = await running.get("/readyz")

    assert (ready.status, ready.text.splitlines()) == (
        503,
        [
            "not ready",
            "- draining: the service is shutting down",
            "- cluster: namespaces: not listed yet",
            "- cluster: nodes: not listed yet",
            "- rules: none are loaded",
        ],
    )
    assert (later.status, later.text) == (503, "not ready\n- rules: none are loaded\n")
    assert (alive.status, alive.text) == (200, "ok\n")


async def test_the_health_port_has_no_reviews(serve: Serve) -> None:
    """The plain port answers probes and metrics only."""
    running = await serve(served(rule()))

    for path in ("/validate", "/mutate", "/", "/validate/things"):
        assert (await running.get(path)).status == 404


def test_every_group_is_known_beforehand() -> None:
    """No configuration has a group that another replica, which has not read it yet, would not answer."""
    everything = build(Settings.model_validate({"sunk": {"daemonSets": "inject"}}))

    for phase, known in GROUPS.items():
        assert known - {POLICY_GROUPS["Fail"]} == everything.groups(phase)


async def test_a_replica_lists_the_paths_that_it_answers(serve: Serve) -> None:
    """`/paths` on the health port has every path at which a review is answered, and no other."""
    running = await serve(_default())

    reply = await running.get("/paths")
    listed = json.loads(reply.body)
    statuses = {path: (await running.post(refused_body(), path)).status for path in [*listed, "/validate/other"]}

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert listed == sorted(listed)
    assert {path for path, status in statuses.items() if status == 200} == set(listed)
