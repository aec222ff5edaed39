"""What a process takes part in: who of several writes the webhook configurations, and by which CA."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from support.api.fakeapi import MUTATING, VALIDATING, named, status
from support.api.guardedapi import GuardedApi
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.replicas.lease import Replica, joined
from webhook.configuration.settings import ClusterSettings, Settings, Tls

SERVER = GuardedApi
SECRETS = "/api/v1/namespaces/cks/secrets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/cks/leases"


@pytest.fixture(autouse=True)
def _held(server: GuardedApi) -> None:
    """There is a CA, and a Lease that another process holds."""
    server.put(SECRETS, _secret(b"old"))
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    held = {"holderIdentity": "other", "leaseDurationSeconds": 3600, "acquireTime": moment, "renewTime": moment}
    server.put(LEASES, named("cks-admission", spec=held))
    for path in (MUTATING, VALIDATING):
        server.put(path, named("another"))


def _secret(content: bytes) -> dict[str, object]:
    return named("ca", data={"ca.crt": base64.b64encode(content).decode()})


def _settings(secret: str) -> Settings:
    return Settings(cluster=ClusterSettings(namespace="cks"), tls=Tls(secret=secret, names=("localhost",)))


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
        server.put(SECRETS, _secret(b"new"))
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


async def test_without_a_ca_of_its_own(server: GuardedApi, api: Connection) -> None:
    """Where the CA comes from elsewhere, whoever holds the Lease writes."""
    server.put(LEASES, named("cks-admission", spec={"holderIdentity": ""}))

    async with joined(api, _settings("")) as replica:
        assert not replica.writing
        await until(lambda: replica.leadership.leading)
        assert replica.writing
