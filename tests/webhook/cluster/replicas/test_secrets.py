"""The Secret with the CA: followed by name, and written in the version that was read."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.api.fakeapi import status
from support.api.guardedapi import GuardedApi
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ApiError
from webhook.cluster.replicas.lease import SecretStore

SERVER = GuardedApi
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
