from __future__ import annotations

import json
from typing import Any

import pytest

from webhook.cluster.client import Connection
from webhook.cluster.errors import ClusterError
from webhook.cluster.registration import PLURALS, apply, remove

from .fakeapi import MUTATING, VALIDATING, FakeApi, status

NAMES = dict.fromkeys(PLURALS, "mine")


def configuration(kind: str, name: str = "mine") -> dict[str, Any]:
    """Return a webhook configuration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [{"name": "a.example.com", "timeoutSeconds": 5}],
    }


async def test_apply(server: FakeApi, api: Connection) -> None:
    """Each configuration is sent whole as a forced server-side apply under the field manager's name."""
    both = [configuration(kind) for kind in PLURALS]

    await apply(api, both)

    assert [(seen.method, seen.path, seen.query, json.loads(seen.body)) for seen in server.seen] == [
        ("PATCH", f"{path}/mine", {"fieldManager": "cks-admission", "force": "true"}, given)
        for path, given in zip((MUTATING, VALIDATING), both, strict=True)
    ]
    assert {seen.headers["Content-Type"] for seen in server.seen} == {"application/apply-patch+yaml"}
    assert all(server.get(path, "mine") for path in (MUTATING, VALIDATING))


async def test_apply_under_another_name(server: FakeApi, api: Connection) -> None:
    """The field manager may be chosen."""
    await apply(api, [configuration("MutatingWebhookConfiguration")], field_manager="other")

    assert server.seen[0].query["fieldManager"] == "other"


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        pytest.param(
            403,
            status(403, 'User "x" cannot patch resource "mutatingwebhookconfigurations"'),
            '(403: User "x" cannot patch resource "mutatingwebhookconfigurations"); a ClusterRole must allow its '
            "account to patch and create mutatingwebhookconfigurations in admissionregistration.k8s.io",
            id="not allowed",
        ),
        pytest.param(422, status(422, "webhooks[0]: bad"), "(422: webhooks[0]: bad)", id="not valid"),
    ],
)
async def test_apply_fails(server: FakeApi, api: Connection, code: int, body: Any, message: str) -> None:
    """A configuration that cannot be written is named, with the API server's words and the right that is missing."""
    path = f"{MUTATING}/mine"
    server.fail(path, code, body)

    with pytest.raises(ClusterError) as caught:
        await apply(api, [configuration(kind) for kind in PLURALS])

    assert str(caught.value) == (
        "MutatingWebhookConfiguration mine could not be written: "
        f"the API server refused PATCH {path} at {server.url} {message}"
    )
    assert len(server.seen) == 1


async def test_apply_to_nobody(server: FakeApi, api: Connection) -> None:
    """An API server that is down is an error in words."""
    await server.__aexit__()

    with pytest.raises(ClusterError, match="mine could not be written: the API server did not answer PATCH"):
        await apply(api, [configuration("MutatingWebhookConfiguration")])


@pytest.mark.parametrize("call", ["apply", "remove"])
async def test_another_kind(server: FakeApi, api: Connection, call: str) -> None:
    """A kind that is no webhook configuration is refused before anything is sent."""
    with pytest.raises(ClusterError, match="Secret is not a kind of webhook configuration; these are: Mutating"):
        await (apply(api, [configuration("Secret")]) if call == "apply" else remove(api, {"Secret": "mine"}))

    assert server.seen == []


async def test_remove(server: FakeApi, api: Connection) -> None:
    """What was there is removed and named; what was not there is no error."""
    await apply(api, [configuration("ValidatingWebhookConfiguration")])

    assert await remove(api, NAMES) == ["ValidatingWebhookConfiguration/mine"]
    assert server.get(VALIDATING, "mine") is None
    assert await remove(api, NAMES) == []


async def test_remove_fails(server: FakeApi, api: Connection) -> None:
    """A configuration that may not be removed is named, with the right that is missing."""
    path = f"{MUTATING}/mine"
    server.fail(path, 403, status(403, "no"))

    with pytest.raises(ClusterError) as caught:
        await remove(api, NAMES)

    assert str(caught.value) == (
        f"MutatingWebhookConfiguration mine could not be removed: the API server refused DELETE {path} at {server.url} "
        "(403: no); a ClusterRole must allow its account to delete mutatingwebhookconfigurations in "
        "admissionregistration.k8s.io"
    )
