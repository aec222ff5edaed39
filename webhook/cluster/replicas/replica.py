"""What the processes of the service share by way of the cluster: who writes, the webhook configurations, the CA."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from webhook.cluster.replicas.lease import Leadership
from webhook.cluster.watches.secrets import AuthoritySecret
from webhook.cluster.watches.webhooks import Webhooks
from webhook.configuration.settings import Settings

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

    @property
    def writing(self) -> bool:
        """Whether this process is the one to write webhook configurations, and knows what is in the Secret by now.

        One that has just become the holder may not have heard of the CA that the holder before it made. The old one in
        every caBundle would have the others refused, which show the new one already.
        """
        return self.leadership.leading and (self.authority is None or self.authority.current)

    def problems(self) -> list[str]:
        """Why nothing is written although this process holds the Lease."""
        if self.authority is None or not self.leadership.leading:
            return []
        before = f"{self.authority.title} is read anew before anything is written"
        return [f"{before}: {reason}" for reason in self.authority.stale()]

    def unsynced(self) -> list[str]:
        """What has not arrived yet, a reason each."""
        return [*self.webhooks.unsynced(), *(self.authority.unsynced() if self.authority else ())]


@asynccontextmanager
async def joined(api: ApiClient, settings: Settings) -> AsyncIterator[Replica]:
    """Take part over a connection, which stays the caller's; in the end give up what this process holds."""
    changed = asyncio.Event()
    namespace = settings.cluster.namespace
    authority = AuthoritySecret(api, namespace, settings.tls.secret, changed=changed) if settings.tls.secret else None
    began = authority.reread if authority is not None else (lambda: None)
    leadership = Leadership(api, namespace, settings.cluster.lease, _identity(), changed=changed, began=began)
    webhooks = Webhooks(api, settings.registration.name, noticed=changed.set)
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
