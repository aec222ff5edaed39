"""Who leads, by a Lease of an API server that keeps versions."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import status
from support.api.guardedapi import GuardedApi
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import Clock
from webhook.cluster.replicas.lease import Durations, Leadership

SERVER = GuardedApi
LEASES = "/apis/coordination.k8s.io/v1/namespaces/cks/leases"
LEASE = f"{LEASES}/writer"
# A lease may run out while its holder is only slow.
QUICK = Durations(1, 0.75, 0.5)
# No lease runs out here.
LASTING = Durations(3600, 1800.0, QUICK.retry)


def _candidate(
    api: Connection, identity: str, clock: Clock | None = None, durations: Durations = LASTING
) -> Leadership:
    return Leadership(api, "cks", "writer", identity, clock, durations=durations)


@asynccontextmanager
async def _running(*candidates: Leadership) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _spec(server: GuardedApi) -> dict[str, Any]:
    lease = server.get(LEASES, "writer")
    assert lease is not None
    spec: dict[str, Any] = lease["spec"]
    return spec


def _told(logged: list[Any], event: str) -> list[tuple[str, str]]:
    """Who logged the event, and why."""
    return [(entry["identity"], entry.get("reason", "")) for entry in logged if entry["event"] == event]


async def test_one_leads_and_all_know_who(server: GuardedApi, api: Connection, times: Times) -> None:
    """The first one makes the Lease and leads; the other one knows its name; the Lease says when, in UTC."""
    first, second = _candidate(api, "pod-a", times.clock), _candidate(api, "pod-b")

    with capture_logs() as logged:
        async with _running(first):
            await first.changed.wait()
            made = dict(_spec(server))
            async with _running(second):
                await second.changed.wait()
                found = [(each.leading, each.holder) for each in (first, second)]

    assert found == [(True, "pod-a"), (False, "pod-a")]
    assert made == {
        "holderIdentity": "pod-a",
        "leaseDurationSeconds": 3600,
        "acquireTime": "2026-03-01T23:30:00.000000Z",
        "renewTime": "2026-03-01T23:30:00.000000Z",
        "leaseTransitions": 0,
    }
    leading = {"event": "leading", "log_level": "info", "lease": "cks/writer", "identity": "pod-a"}
    assert logged == [{**leading, "reason": "there was no lease"}]


_ACCOUNT = {"serviceaccount": {"name": "manage", "uid": "7", "x": 1}}


@pytest.mark.parametrize(
    ("claims", "is_owned"),
    [
        ({"kubernetes.io": {"namespace": "cks", "pod": {}, **_ACCOUNT}}, True),
        ({"kubernetes.io": {"namespace": "other", **_ACCOUNT}}, False),
        ({"sub": "system:serviceaccount:cks:manage"}, False),
        ([], False),
    ],
)
async def test_a_lease_goes_with_its_account(
    server: GuardedApi, api: Connection, claims: Any, *, is_owned: bool
) -> None:
    """Whoever makes the Lease names its service account as the owner, if that is in the same Namespace."""
    payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    api.configuration.api_key["BearerToken"] = f"bearer e30.{payload}.c2ln"
    candidate = _candidate(api, "pod-a")

    async with _running(candidate):
        await candidate.changed.wait()

    owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "manage", "uid": "7"}
    found = server.get(LEASES, "writer") or {}
    assert found["metadata"].get("ownerReferences") == ([owner] if is_owned else None)


async def test_a_lease_that_is_given_up_is_taken_soon(server: GuardedApi, api: Connection) -> None:
    """A process that ends in order names nobody in the Lease, and another one takes it at its next look."""
    first, second = _candidate(api, "pod-a"), _candidate(api, "pod-b")

    with capture_logs() as logged:
        async with _running(first, second):
            await until(lambda: first.leading or second.leading)
            leader, other = (first, second) if first.leading else (second, first)
            await until(lambda: other.holder)
            await leader.release()
            given_up = dict(_spec(server))
            await until(lambda: other.leading)  # a lease that had to run out would take an hour
        taken = _spec(server)

    assert (given_up["holderIdentity"], given_up["leaseDurationSeconds"]) == ("", 1)
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == (other.identity, 1)
    assert _told(logged, "leading") == [
        (leader.identity, "there was no lease"),
        (other.identity, "nobody held it"),
    ]
    assert _told(logged, "no longer leading") == [(leader.identity, "the service is stopping")]


async def test_a_holder_that_dies_is_followed(server: GuardedApi, api: Connection) -> None:
    """The Lease of a process that is silent for its duration is taken; the reason names the silent one."""
    first, second = (_candidate(api, identity, durations=QUICK) for identity in ("pod-a", "pod-b"))

    with capture_logs() as logged:
        async with _running(first):
            await first.changed.wait()
        async with _running(second):
            await until(lambda: second.leading)

    assert _told(logged, "leading")[1:] == [("pod-b", "pod-a did not renew it")]
    assert _spec(server)["leaseTransitions"] == 1


async def test_of_two_that_make_the_lease_one_leads(server: GuardedApi, api: Connection) -> None:
    """Where both find no Lease, the API server lets one of them make it; the other says so in one line."""
    first, second = _candidate(api, "pod-a"), _candidate(api, "pod-b")
    server.held = asyncio.Event()

    with capture_logs() as logged:
        async with _running(first, second):
            await until(lambda: len(server.seen) == 2)
            server.held.set()
            await until(lambda: first.holder == second.holder != "")

    loser = second if first.leading else first
    assert [each.leading for each in (first, second)].count(True) == 1
    conflict = f'the API server refused POST {LEASES} at {server.url} (409: "writer" already exists)'
    assert _told(logged, "another process changed the lease") == [(loser.identity, conflict)]
    assert len(logged) == 2


async def test_a_lease_that_was_taken_is_lost_at_once(server: GuardedApi, api: Connection) -> None:
    """Whoever finds another name in the Lease no longer leads, and says whose it is."""
    first = _candidate(api, "pod-a")

    with capture_logs() as logged:
        async with _running(first):
            await first.changed.wait()
            first.changed.clear()
            lease = json.loads(json.dumps(server.get(LEASES, "writer")))
            lease["spec"] |= {"holderIdentity": "pod-z", "leaseDurationSeconds": 60}
            server.put(LEASES, lease)
            await first.changed.wait()
            found = (first.leading, first.holder)

    assert found == (False, "pod-z")
    assert _told(logged, "no longer leading") == [("pod-a", "pod-z has taken it")]


async def test_an_api_server_in_trouble(server: GuardedApi, api: Connection) -> None:
    """A holder that cannot renew the Lease stops leading in time, says why once, and leads again afterwards."""
    first = _candidate(api, "pod-a", durations=QUICK)
    server.fail(LEASE, 200, "<html>")

    with capture_logs() as logged:
        async with _running(first):
            await until(lambda: first.leading)
            server.fail(LEASE, 503, status(503, "busy"), times=3, method="GET")
            await until(lambda: not first.leading)
            await until(lambda: first.leading)

    busy = f"the API server refused GET {LEASE} at {server.url} (503: busy)"
    failed, works = "reading the lease failed", ("reading the lease works again", "")
    (html, reason), *later = [(entry["event"], entry.get("reason", "")) for entry in logged]
    assert (html, reason.partition(" cannot be read: ")[0]) == (failed, f"the answer to GET {LEASE}")
    assert later == [
        works,
        ("leading", "there was no lease"),
        (failed, busy),
        ("no longer leading", f"it could not be renewed: {busy}"),
        works,
        ("leading", "it was held under this identity already"),
    ]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (403, "a Role in namespace cks must allow the service's account to create leases, and to get and update "),
        (404, "make the Namespace cks, or name another one as cluster.namespace"),
    ],
)
async def test_what_is_missing_is_named(server: GuardedApi, api: Connection, code: int, remedy: str) -> None:
    """Without the right to it, or a place for it, the log says what to do, once."""
    first = _candidate(api, "pod-a")
    server.fail(LEASES, code, status(code, "no"), times=2)

    with capture_logs() as logged:
        async with _running(first):
            await until(lambda: first.leading)

    said, *later = [(entry["event"], entry.get("reason", "")) for entry in logged]
    reason = f"the API server refused POST {LEASES} at {server.url} ({code}: no); {remedy}"
    assert (said[0], said[1][: len(reason)]) == ("writing the lease failed", reason)
    assert later == [("writing the lease works again", ""), ("leading", "there was no lease")]
