"""What processes share: who leads, by a Lease that keeps versions; the Secret with the CA; by which CA they write."""

from __future__ import annotations

import asyncio
import base64
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import MUTATING, VALIDATING, GuardedApi, named, status
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ApiError, Clock
from webhook.cluster.replicas.lease import Durations, Leadership, Replica, SecretStore, joined
from webhook.configuration.settings import ClusterSettings, Settings, Tls

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


def _told(logged: list[Any], event: str) -> list[tuple[str, str]]:
    """Who logged the event, and why."""
    return [(entry["identity"], entry.get("reason", "")) for entry in logged if entry["event"] == event]


async def test_one_leads_and_all_know_who(server: GuardedApi, api: Connection, times: Times) -> None:
    """The first one makes the Lease and leads; the other one knows its name; the Lease says when, in UTC."""
    first, second = _candidate(api, "pod-a", times.clock), _candidate(api, "pod-b")

    with capture_logs() as logged:
        async with _running(first):
            await first.changed.wait()
            made = dict((server.get(LEASES, "writer") or {})["spec"])
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
            given_up = dict((server.get(LEASES, "writer") or {})["spec"])
            await until(lambda: other.leading)  # a lease that had to run out would take an hour
        taken = (server.get(LEASES, "writer") or {})["spec"]

    assert (given_up["holderIdentity"], given_up["leaseDurationSeconds"]) == ("", 1)
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == (other.identity, 1)
    assert _told(logged, "leading") == [(leader.identity, "there was no lease"), (other.identity, "nobody held it")]
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
    assert (server.get(LEASES, "writer") or {})["spec"]["leaseTransitions"] == 1


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


SECRETS = "/api/v1/namespaces/cks/secrets"
OURS = {"app.kubernetes.io/name": "cks-admission", "app.kubernetes.io/managed-by": "cks-admission"}


@pytest.fixture
async def secret(server: GuardedApi, api: Connection, times: Times) -> AsyncIterator[SecretStore]:
    """The Secret, known as it is, beside another one."""
    server.put(SECRETS, _secret("another", b"x"))
    found = SecretStore(api, "cks", "ca", times.clock)
    await found.start()
    await server.watched(SECRETS)
    yield found
    await found.stop()


def _secret(name: str, content: bytes, **metadata: Any) -> dict[str, Any]:
    data = {"ca.crt": base64.b64encode(content).decode()}
    return {"metadata": {"name": name, **metadata}, "type": "Opaque", "data": data}


async def _refusal(secret: SecretStore) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        await secret.write({"ca.crt": b"new"})
    return raised.value.status, str(raised.value)


async def test_it_is_made(server: GuardedApi, secret: SecretStore) -> None:
    """A Secret that does not exist is made as an opaque one with the service's labels, and is known at once."""
    await secret.write({"ca.crt": b"cert", "ca.key": b"key"})

    metadata = {"name": "ca", "labels": OURS, "resourceVersion": str(server.version)}
    made = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata}
    assert secret.stored == {"ca.crt": b"cert", "ca.key": b"key"}
    assert server.written == [("POST", SECRETS, {**made, "data": {"ca.crt": "Y2VydA==", "ca.key": "a2V5"}})]


async def test_what_others_have_written_is_kept(server: GuardedApi, secret: SecretStore) -> None:
    """Labels, annotations, the type and further data stay; only what is given takes the place of what was there."""
    labels = {"team": "platform", "app.kubernetes.io/managed-by": "Helm"}
    before = _secret("ca", b"old", uid="u", labels=labels, annotations={"note": "hands off"})
    before["data"]["notes"] = "Tg=="
    server.put(SECRETS, before | {"type": "kubernetes.io/custom"})
    await until(lambda: secret.exists)

    await secret.write({"ca.crt": b"new"})

    version = {"labels": {**OURS, **labels}, "resourceVersion": str(server.version)}
    assert server.get(SECRETS, "ca") == {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/custom",
        "metadata": {**before["metadata"], **version},
        "data": {"ca.crt": "bmV3", "notes": "Tg=="},
    }
    assert secret.stored == {"ca.crt": b"new", "notes": b"N"}


async def test_it_is_read_anew(server: GuardedApi, secret: SecretStore) -> None:
    """What a dead watch has not told is known once it is read anew, and then followed over another watch."""
    server.put(SECRETS, _secret("ca", b"first"))
    await until(lambda: secret.stored == {"ca.crt": b"first"})
    server.deafen(SECRETS)
    server.put(SECRETS, _secret("ca", b"second"))

    assert (secret.current, secret.stored) == (True, {"ca.crt": b"first"})
    secret.reread()
    assert (secret.current, secret.unsynced(), secret.stored) == (False, [], {"ca.crt": b"first"})
    await until(lambda: secret.current)
    assert secret.stored == {"ca.crt": b"second"}
    await server.watched(SECRETS)
    server.put(SECRETS, _secret("ca", b"third"))
    await until(lambda: secret.stored == {"ca.crt": b"third"})


async def test_a_lost_race_is_a_conflict(server: GuardedApi, api: Connection) -> None:
    """Whether it was made, changed or deleted by somebody else meanwhile: nothing is written, and 409 says so."""
    first, second = (SecretStore(api, "cks", "ca") for _ in range(2))  # they follow nothing

    await first.write({"ca.crt": b"first"})
    made = await _refusal(second)
    server.put(SECRETS, _secret("ca", b"theirs"))
    changed = await _refusal(first)
    server.delete(SECRETS, "ca")
    deleted = await _refusal(first)

    refused = "Secret cks/ca could not be written: the API server refused"
    assert [made, changed, deleted] == [
        (409, f'{refused} POST {SECRETS} at {server.url} (409: "ca" already exists)'),
        (409, f'{refused} PUT {SECRETS}/ca at {server.url} (409: the object "ca" has been modified)'),
        (409, f'{refused} PUT {SECRETS}/ca at {server.url} (404: "ca" not found)'),
    ]
    assert len(server.written) == 1


async def test_what_it_takes_to_write_is_said(server: GuardedApi, secret: SecretStore) -> None:
    """A right that is missing is named; a Secret that cannot be changed, as an immutable one, is to be deleted."""
    server.fail(SECRETS, 403, status(403, "forbidden"))
    forbidden = await _refusal(secret)
    server.put(SECRETS, _secret("ca", b"old"))
    await until(lambda: secret.exists)
    server.fail(f"{SECRETS}/ca", 422, status(422, "immutable"))
    immutable = await _refusal(secret)

    refused = "Secret cks/ca could not be written: the API server refused"
    right = "a Role in namespace cks must allow the service's account to create secrets, and to update ca among them"
    remedy = "delete Secret cks/ca, and it is made anew"
    assert [forbidden, immutable] == [
        (403, f"{refused} POST {SECRETS} at {server.url} (403: forbidden); {right}"),
        (422, f"{refused} PUT {SECRETS}/ca at {server.url} (422: immutable); {remedy}"),
    ]


@pytest.fixture
def held(server: GuardedApi) -> None:
    """There is a CA, and a Lease that another process holds."""
    server.put(SECRETS, _secret("ca", b"old"))
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 3600, "acquireTime": moment, "renewTime": moment}
    server.put(LEASES, named("cks-admission", spec=spec))
    for path in (MUTATING, VALIDATING):
        server.put(path, named("another"))


def _settings(secret: str) -> Settings:
    return Settings(cluster=ClusterSettings(namespace="cks"), tls=Tls(secret=secret, names=("localhost",)))


@pytest.mark.usefixtures("held")
async def test_who_leads_knows_the_ca_before_it_writes(server: GuardedApi, api: Connection) -> None:
    """A process whose watch died before the CA was renewed reads the Secret anew before it writes as the holder."""
    written: list[tuple[bool, bytes]] = []

    def note(replica: Replica) -> bool:
        assert replica.authority is not None
        if replica.writing:
            written.append((replica.leadership.leading, replica.authority.stored["ca.crt"]))
        return replica.writing

    async with joined(api, _settings("ca")) as replica:
        await server.watched(SECRETS)
        server.deafen(SECRETS)
        server.put(SECRETS, _secret("ca", b"new"))
        server.fail(SECRETS, 503, status(503))
        server.put(LEASES, named("cks-admission", spec={"holderIdentity": ""}))
        await until(lambda: note(replica) or replica.leadership.leading)
        meanwhile = replica.writing, replica.unsynced(), replica.problems()
        await until(lambda: note(replica))
        after = replica.problems()

    assert written == [(True, b"new")]
    writing, unsynced, (waiting,) = meanwhile
    assert (writing, unsynced, after) == (False, [], [])
    assert waiting.startswith("Secret cks/ca is read again before anything is written: ")


@pytest.mark.usefixtures("held")
async def test_without_a_ca_of_its_own(server: GuardedApi, api: Connection) -> None:
    """Where the CA comes from elsewhere, whoever holds the Lease writes."""
    server.put(LEASES, named("cks-admission", spec={"holderIdentity": ""}))

    async with joined(api, _settings("")) as replica:
        assert not replica.writing
        await until(lambda: replica.leadership.leading)
        assert replica.writing
