"""The webhook configurations as they are in the cluster: followed, read, written, and known by replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from support.api.fakeapi import MUTATING, VALIDATING, FakeApi, Json, status
from support.api.times import Times
from support.api.webhookapi import NAME, ROLES, WebhookApi
from support.patience import until

from certs.material import new_authority
from webhook.certificates import TrustWatch
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.webhooks import (
    WatchState,
    Webhooks,
    owner_uid,
    read,
    recognition,
    remove,
    unregister,
    write,
)
from webhook.registration.resources import CONFIGURATIONS

SERVER = WebhookApi
_GONE = {"cks-admission.dev/unregister": "true"}


@pytest.fixture
async def webhooks(server: WebhookApi, api: Connection, times: Times) -> AsyncIterator[Webhooks]:
    """The configurations, followed from the test's first change on."""
    del server
    found = Webhooks(api, NAME, times.clock)
    await found.start()
    await until(lambda: not found.unsynced())
    yield found
    await found.stop()


def configuration(annotations: dict[str, str] | None = None) -> Json:
    """One without entries, as items of a list are: without apiVersion and kind."""
    return {"metadata": {"name": NAME, "annotations": annotations or {}}, "webhooks": []}


async def shown(webhooks: Webhooks, server: WebhookApi, content: Json | None) -> None:
    """Put the validating configuration, or delete it for None, and wait until that shows."""
    webhooks.changed.clear()
    if content is None:
        server.delete(VALIDATING, NAME)
    else:
        server.put(VALIDATING, content)
    await webhooks.changed.wait()


async def test_what_may_not_be_followed_is_said(server: WebhookApi, api: Connection, times: Times) -> None:
    """Before the first list it is said why there is none, and which right is missing."""
    server.fail(MUTATING, 403, status(403, "no"), times=9999)
    webhooks = Webhooks(api, NAME, times.clock)
    await webhooks.start()
    await until(lambda: any("403" in reason for reason in webhooks.unsynced()) and len(webhooks.unsynced()) == 1)
    (reason,) = webhooks.unsynced()
    trusted = TrustWatch(webhooks)(new_authority(datetime(2026, 3, 1, tzinfo=UTC)).certificate)
    await webhooks.stop()

    assert reason.startswith("mutatingwebhookconfigurations: first list not done: the API server refused GET")
    assert reason.endswith(
        "; a ClusterRole must allow the service's account to list and watch mutatingwebhookconfigurations named "
        f"{NAME} in admissionregistration.k8s.io"
    )
    assert trusted is False


async def test_their_end_is_remembered(server: WebhookApi, webhooks: Webhooks) -> None:
    """Announced to go, they stay unregistered once gone, until they are there without the announcement."""
    found = [webhooks.state.unregistered]
    for content in (configuration(), None, configuration(_GONE), None, configuration()):
        await shown(webhooks, server, content)
        found.append(webhooks.state.unregistered)

    assert found == [False, False, False, True, True, False]


async def test_an_end_within_one_glance_is_seen(server: WebhookApi, webhooks: Webhooks) -> None:
    """Announcement and deletion may arrive together: nobody has to look in between."""
    await shown(webhooks, server, configuration())
    server.put(VALIDATING, configuration(_GONE))
    server.delete(VALIDATING, NAME)
    await until(lambda: not webhooks.state.current)

    assert webhooks.state.unregistered


Send = Callable[[Connection], Awaitable[Any]]
NAMES = dict.fromkeys(CONFIGURATIONS, "mine")
HEAD = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "mine"}, "webhooks": []}
WANTED = {**HEAD, "kind": "MutatingWebhookConfiguration"}


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
            lambda api: write(api, WANTED),
            f"PATCH {MINE}",
            403,
            f"{OWN} written",
            f"; {RIGHT.format('patch and create')}",
        ),
        (lambda api: write(api, WANTED), f"PATCH {MINE}", 422, f"{OWN} written", ""),
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
        lambda api: write(api, {**HEAD, "kind": "Secret"}),
        lambda api: write(api, {**HEAD, "kind": "Secret"}, replaces=True),
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


def test_a_replica_is_ready_once_it_knows_what_it_is_asked(times: Times) -> None:
    """The reason names an unknown path, then gives API servers a few seconds; a later entry makes nobody unready."""
    was_ready = False
    webhooks: Any = SimpleNamespace(unsynced=lambda: ["not listed yet"])
    unready = recognition(webhooks, lambda: {"/old"}, lambda: was_ready, lambda: times.seconds)
    told = []
    for seconds, paths in ((0, ["/old"]), (0, ["/old", "/new"]), (4, ["/old"]), (1, ["/old"])):
        times.pass_by(seconds)
        entries = [{"name": "x.cks-admission.dev", "clientConfig": {"url": f"https://x{path}"}} for path in paths]
        webhooks.state = WatchState(synced=True, current={"ValidatingWebhookConfiguration": {"webhooks": entries}})
        told.append(unready())
    was_ready = True

    removal = "an entry that this version does not know was removed just now, and API servers may still ask it"
    unknown = "the API server asks for /new, which this version does not know; manage removes such entries"
    assert told == [["not listed yet"], [unknown], [removal], ["not listed yet"]]
    assert unready() == []
