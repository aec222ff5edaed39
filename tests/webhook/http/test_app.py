"""The admission routes over a real port: what is answered where, and which calls are refused with which words."""

import json
from collections.abc import AsyncIterator
from io import BytesIO

import pytest
from support.builders import daemon_set, pod
from support.service.reviews import REFUSAL, TODAY, UID, Fixed, answer_of, body, refused_body, rule, served
from support.service.servers import Serve, default_rules
from support.service.wire import JSON, connected, head

from policies.engine.facts import StaticFacts
from policies.engine.rule import Mutation
from webhook.http.app import MAX_BODY
from webhook.http.decision import Served
from webhook.version import VERSION

_MIB = 1024 * 1024
_GROUPS = "/validate/guard, /validate/labels, /validate/policies, /validate/policies-ignore, /validate/topologies"


def _default() -> Served:
    return Served(default_rules(), StaticFacts(TODAY))


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


@pytest.mark.parametrize(
    "path", ["/", "/validate/", "/validate/labels/x", "/Validate", "/livez", "/readyz", "/metrics"]
)
async def test_other_paths_are_not_found(serve: Serve, path: str) -> None:
    """The TLS port has the admission routes and no others, not even those for probes."""
    running = await serve(_default())

    assert (await running.post(refused_body(), path)).status == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
async def test_other_methods_are_refused(serve: Serve, method: str) -> None:
    """Reviews are posted; every other method is 405."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        await wire.send(head("/validate", 0, method=method))
        assert (await wire.reply(has_body=method != "HEAD")).status == 405


@pytest.mark.parametrize(
    ("content_type", "status", "found"),
    [
        pytest.param("application/json", 200, "", id="json"),
        pytest.param("application/json; charset=utf-8", 200, "", id="json-with-charset"),
        pytest.param("APPLICATION/JSON", 200, "", id="upper-case"),
        pytest.param(None, 415, "none", id="none"),
        pytest.param("text/plain", 415, "text/plain", id="text"),
        pytest.param("application/yaml", 415, "application/yaml", id="yaml"),
        pytest.param("application/json-patch+json", 415, "application/json-patch+json", id="json-patch"),
        pytest.param("json", 415, "json", id="no-slash"),
        pytest.param("application/vnd.kubernetes.protobuf", 415, "application/vnd.kubernetes.protobuf", id="protobuf"),
    ],
)
async def test_the_content_type_must_be_json(serve: Serve, content_type: str | None, status: int, found: str) -> None:
    """A body that is not said to be JSON is 415 with what it was said to be."""
    running = await serve(_default())

    reply = await running.post(refused_body(), content_type=content_type)

    assert reply.status == status
    if status == 415:
        assert reply.text == f"Expected the Content-Type application/json, found {found}.\n"


_WHY = "the API server takes objects of up to 3 MiB, and a review holds two of them.\n"


async def test_a_body_of_too_many_bytes_is_refused_by_its_length(serve: Serve) -> None:
    """A Content-Length over 8 MiB is 413 before a byte of the body is read, with the reason for the number."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        await wire.send(head(length=MAX_BODY + 1))
        reply = await wire.reply()

    assert MAX_BODY == 8 * _MIB
    assert (reply.status, reply.text) == (413, f"The body has {MAX_BODY + 1} bytes, more than {MAX_BODY} bytes: {_WHY}")


async def _chunks(total: int) -> AsyncIterator[bytes]:
    for start in range(0, total, _MIB):
        yield b" " * min(_MIB, total - start)


async def test_a_chunked_body_of_too_many_bytes_is_refused(serve: Serve) -> None:
    """A body that names no length is 413 as soon as it has passed 8 MiB."""
    running = await serve(_default())

    async with connected(running.port) as wire:
        await wire.send(head(length=None))
        async for chunk in _chunks(MAX_BODY + 1):
            await wire.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        reply = await wire.reply()

    assert (reply.status, reply.text) == (413, f"The body has more than {MAX_BODY} bytes: {_WHY}")


async def test_a_body_of_just_the_greatest_size_is_read(serve: Serve) -> None:
    """8 MiB are taken, in one piece and in chunks."""
    running = await serve(_default())
    sent = refused_body().ljust(MAX_BODY)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(sent), _MIB):
            yield sent[start : start + _MIB]

    for data in (BytesIO(sent), chunks()):
        reply = await running.post(data)
        assert answer_of(reply.body)["status"]["message"] == REFUSAL


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_a_rule_that_raises_refuses_where_it_fails_closed(serve: Serve, path: str) -> None:
    """A rule with failure policy Fail that raises is an HTTP 200 that refuses, names the rule and its error's words."""
    broken = Fixed(ValueError("no such gauge"), ValueError("no such gauge"))
    running = await serve(served(rule(broken, policy="Fail")))

    reply = await running.post(body(pod()), path)

    message = (
        "Rule 'tidy' could not be evaluated (ValueError: no such gauge).\n"
        "It is set to refuse what it cannot judge. Try again; if it persists, tell the cluster's operators."
    )
    assert reply.status == 200
    assert answer_of(reply.body) == {
        "uid": UID,
        "allowed": False,
        "status": {"message": message, "reason": "InternalError", "code": 500, "status": "Failure"},
        "auditAnnotations": {"tidy": "error: ValueError"},
    }


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_a_rule_that_raises_warns_where_it_fails_open(serve: Serve, path: str) -> None:
    """A rule with failure policy Ignore that raises lets the object in and says so in a warning; others still count."""
    broken = Fixed(ValueError("no such gauge"), ValueError("no such gauge"))
    patch = {"op": "add", "path": "/metadata/annotations", "value": {}}
    fine = rule(Fixed((), Mutation((patch,))), name="fine")
    running = await serve(served(rule(broken, policy="Ignore"), fine))

    reply = await running.post(body(pod()), path)

    answer = answer_of(reply.body)
    assert reply.status == 200
    assert (answer["allowed"], answer["auditAnnotations"]) == (
        True,
        {"tidy": "error: ValueError", "fine": "patch" if path == "/mutate" else "admit"},
    )
    assert answer["warnings"] == ["rule 'tidy' was skipped, it could not be evaluated: ValueError: no such gauge"]
    assert ("patch" in answer) == (path == "/mutate")


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
