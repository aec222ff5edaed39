"""Single reads and writes of webhook configurations, and of what else they need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.api.fakeapi import MUTATING, VALIDATING, FakeApi, status
from support.api.webhookapi import ROLES, WebhookApi

from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.webhooks import PLURALS, apply, owner_uid, read, remove, replace, unregister

SERVER = WebhookApi
Send = Callable[[Connection], Awaitable[Any]]
NAMES = dict.fromkeys(PLURALS, "mine")


def configuration(kind: str) -> dict[str, Any]:
    """A webhook configuration."""
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "mine"}, "webhooks": []}


async def test_owner(server: FakeApi, api: Connection) -> None:
    """A ClusterRole is known by its uid."""
    server.put(ROLES, {"metadata": {"name": "cks", "uid": "u-1"}})

    assert [await owner_uid(api, name) for name in ("cks", "other")] == ["u-1", None]


OWN = "MutatingWebhookConfiguration mine could not be"
RIGHT = "a ClusterRole must allow its account to {} mutatingwebhookconfigurations in admissionregistration.k8s.io"
MINE = f"{MUTATING}/mine"


@pytest.mark.parametrize(
    ("send", "request_line", "code", "what", "remedy"),
    [
        (
            lambda api: owner_uid(api, "cks"),
            f"GET {ROLES}/cks",
            403,
            "ClusterRole cks could not be read",
            "; a ClusterRole must allow the service's account to get it",
        ),
        (
            lambda api: apply(api, configuration("MutatingWebhookConfiguration")),
            f"PATCH {MINE}",
            403,
            f"{OWN} written",
            f"; {RIGHT.format('patch and create')}",
        ),
        (
            lambda api: apply(api, configuration("MutatingWebhookConfiguration")),
            f"PATCH {MINE}",
            422,
            f"{OWN} written",
            "",
        ),
        (lambda api: remove(api, NAMES), f"DELETE {MINE}", 403, f"{OWN} removed", f"; {RIGHT.format('delete')}"),
        # What may not be announced is not deleted: a running service would put it back.
        (lambda api: unregister(api, NAMES), f"PATCH {MINE}", 403, f"{OWN} annotated", f"; {RIGHT.format('patch')}"),
    ],
    ids=["owner", "apply", "invalid", "remove", "unregister"],
)
async def test_what_fails_is_named(
    server: FakeApi, api: Connection, send: Send, request_line: str, code: int, what: str, remedy: str
) -> None:
    """An object that cannot be read or written is named, with the API server's words and the right that is missing."""
    server.fail(request_line.partition(" ")[2], code, status(code, "no"))

    with pytest.raises(ClusterError) as caught:
        await send(api)

    refused = f"the API server refused {request_line} at {server.url}"
    assert str(caught.value) == f"{what}: {refused} ({code}: no){remedy}"
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "send",
    [
        lambda api: apply(api, configuration("Secret")),
        lambda api: replace(api, configuration("Secret")),
        lambda api: read(api, "Secret", "mine"),
        lambda api: remove(api, {"Secret": "mine"}),
        lambda api: unregister(api, {"Secret": "mine"}),
    ],
    ids=["apply", "replace", "read", "remove", "unregister"],
)
async def test_another_kind(server: FakeApi, api: Connection, send: Send) -> None:
    """A kind that is neither a webhook configuration nor a policy is refused before anything is sent."""
    with pytest.raises(ClusterError, match="Secret is not written here; what is: Mutating"):
        await send(api)

    assert server.seen == []


async def test_unregister(server: FakeApi, api: Connection) -> None:
    """Both are announced to go before the first goes, so that a running service lets them; absent ones are no error."""
    paths = [f"{path}/mine" for path in (MUTATING, VALIDATING)]
    for path in (MUTATING, VALIDATING):
        server.put(path, {"metadata": {"name": "mine"}, "webhooks": []})

    assert await unregister(api, NAMES) == [f"{kind}/mine" for kind in PLURALS]
    assert await unregister(api, NAMES) == []
    assert [(seen.method, seen.path) for seen in server.seen[:4]] == [
        (method, path) for method in ("PATCH", "DELETE") for path in paths
    ]
