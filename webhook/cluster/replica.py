"""What the processes of the service share by way of the cluster: who writes, the webhook configurations, the CA."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from webhook.cluster.lease import Leadership
from webhook.cluster.secrets import AuthoritySecret
from webhook.cluster.webhooks import Webhooks
from webhook.settings import Settings

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


class Replica(NamedTuple):
    """One process of several, and what it knows of the others' work.

    authority: the Secret with the CA, None where the CA comes from elsewhere. changed: set when any of the three may be
    another one.
    """

    leadership: Leadership
    webhooks: Webhooks
    authority: AuthoritySecret | None
    changed: asyncio.Event

    def unsynced(self) -> list[str]:
        """What has not arrived yet, a reason each."""
        return [*self.webhooks.unsynced(), *(self.authority.unsynced() if self.authority else ())]


@asynccontextmanager
async def joined(api: ApiClient, settings: Settings) -> AsyncIterator[Replica]:
    """Take part over a connection, which stays the caller's; in the end give up what this process holds."""
    changed = asyncio.Event()
    namespace = settings.cluster.namespace
    leadership = Leadership(api, namespace, settings.cluster.lease, _identity(), changed=changed)
    webhooks = Webhooks(api, settings.registration.name, noticed=changed.set)
    authority = AuthoritySecret(api, namespace, settings.tls.secret, changed=changed) if settings.tls.secret else None
    taking_part = asyncio.create_task(leadership.run(), name="lease")
    try:
        await webhooks.start()
        if authority is not None:
            await authority.start()
        yield Replica(leadership, webhooks, authority, changed)
    finally:
        await leadership.release()
        taking_part.cancel()
        await webhooks.stop()
        if authority is not None:
            await authority.stop()


def _identity() -> str:
    """Who this process is: its Pod, and a part that no other process has, since several may run in one Pod."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
