"""Single reads and writes of webhook configurations, and of what else they need."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from support.api.fakeapi import MUTATING, VALIDATING, FakeApi, status
from support.api.webhookapi import ROLES, WebhookApi

from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.webhooks import PLURALS, apply, owner_uid, read, remove, replace, unregister

NAMES = dict.fromkeys(PLURALS, "mine")


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """The small API server, with webhook configurations."""
    async with WebhookApi() as running:
        yield running


def configuration(kind: str, **metadata: Any) -> dict[str, Any]:
    """Return a webhook configuration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "mine", **metadata},
        "webhooks": [{"name": "a.example.com", "clientConfig": {"url": "https://a.example.com"}, "timeoutSeconds": 5}],
    }


async def test_owner(server: FakeApi, api: Connection) -> None:
    """A ClusterRole is known by its uid; what may not be read is named, with the right that is missing."""
    server.put(ROLES, {"metadata": {"name": "cks", "uid": "u-1"}})
    found = [await owner_uid(api, name) for name in ("cks", "other")]
    server.fail(f"{ROLES}/cks", 403, status(403, "no"))

    with pytest.raises(ClusterError) as caught:
        await owner_uid(api, "cks")

    assert found == ["u-1", None]
    assert str(caught.value) == (
        f"ClusterRole cks could not be read: the API server refused GET {ROLES}/cks at {server.url} (403: no); a "
        "ClusterRole must allow the service's account to get it"
    )


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
        await apply(api, configuration("MutatingWebhookConfiguration"))

    assert str(caught.value) == (
        "MutatingWebhookConfiguration mine could not be written: "
        f"the API server refused PATCH {path} at {server.url} {message}"
    )
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda api: apply(api, configuration("Secret")),
        lambda api: replace(api, configuration("Secret")),
        lambda api: read(api, "Secret", "mine"),
        lambda api: remove(api, {"Secret": "mine"}),
        lambda api: unregister(api, {"Secret": "mine"}),
    ],
    ids=["apply", "replace", "read", "remove", "unregister"],
)
async def test_another_kind(server: FakeApi, api: Connection, call: Callable[[Connection], Awaitable[Any]]) -> None:
    """A kind that is neither a webhook configuration nor a policy is refused before anything is sent."""
    with pytest.raises(ClusterError, match="Secret is not written here; what is: Mutating"):
        await call(api)

    assert server.seen == []


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


async def test_unregister(server: FakeApi, api: Connection) -> None:
    """Both are announced to go before the first goes, so that a running service lets them; absent ones are no error."""
    for path in (MUTATING, VALIDATING):
        server.put(path, {"metadata": {"name": "mine"}, "webhooks": []})

    assert await unregister(api, NAMES) == [f"{kind}/mine" for kind in PLURALS]
    assert await unregister(api, NAMES) == []

    announced = {"metadata": {"annotations": {"cks-admission.dev/unregister": "true"}}}
    assert [(seen.method, seen.path, json.loads(seen.body or "null")) for seen in server.seen[:4]] == [
        ("PATCH", f"{MUTATING}/mine", announced),
        ("PATCH", f"{VALIDATING}/mine", announced),
        ("DELETE", f"{MUTATING}/mine", None),
        ("DELETE", f"{VALIDATING}/mine", None),
    ]
    assert {seen.headers["Content-Type"] for seen in server.seen[:2]} == {"application/merge-patch+json"}


async def test_unregister_fails(server: FakeApi, api: Connection) -> None:
    """What may not be announced is not deleted: a running service would put it back. The right is named."""
    server.put(VALIDATING, {"metadata": {"name": "mine"}, "webhooks": []})
    server.fail(f"{VALIDATING}/mine", 403, status(403, "no"))

    with pytest.raises(ClusterError) as caught:
        await unregister(api, NAMES)

    assert str(caught.value) == (
        "ValidatingWebhookConfiguration mine could not be annotated: the API server refused PATCH "
        f"{VALIDATING}/mine at {server.url} (403: no); a ClusterRole must allow its account to patch "
        "validatingwebhookconfigurations in admissionregistration.k8s.io"
    )
    assert server.get(VALIDATING, "mine")
