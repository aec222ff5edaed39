"""The webhook configurations are known as they are in the cluster, and what they say of CAs and of their end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from support.api.fakeapi import MUTATING, VALIDATING, Json, status
from support.api.times import Times
from support.api.webhookapi import NAME, WebhookApi
from support.patience import until

from certs.authority import new_authority
from webhook.authority import TrustWatch
from webhook.cluster.api.client import Connection
from webhook.cluster.replicas.webhooks import Webhooks

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
