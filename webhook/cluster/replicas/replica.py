"""State that the service's processes share in the cluster: the leader, the webhook configurations, the CA."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from webhook.cluster.api.call import Connection
from webhook.cluster.replicas.lease import Leadership
from webhook.cluster.replicas.webhooks import Webhooks
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.secrets import SecretStore
from webhook.configuration.settings import Settings


class Replica(NamedTuple):
    """One of several processes, and the state that it shares with the others.

    authority: the Secret with the CA; None if the CA comes from elsewhere. changed: set when any of the three may have
    changed.
    """

    leadership: Leadership
    webhooks: Webhooks
    authority: SecretStore | None
    changed: asyncio.Event

    @property
    def writing(self) -> bool:
        """Whether this process should write webhook configurations: it is the leader and knows the current Secret.

        A new leader may not know yet the CA that its predecessor made. If it wrote the old CA into the caBundles, the
        API server would reject the other replicas, which already serve leaves of the new CA.
        """
        return self.leadership.leading and (self.authority is None or self.authority.current)

    def problems(self) -> list[str]:
        """Why this process does not write although it holds the Lease."""
        if self.authority is None or not self.leadership.leading:
            return []
        before = f"{self.authority.title} is read again before anything is written"
        return [f"{before}: {reason}" for reason in self.authority.stale()]

    def reflectors(self) -> list[Reflector[Any]]:
        """What is followed now."""
        return [*self.webhooks.reflectors(), *(self.authority.reflectors() if self.authority else ())]

    def unsynced(self) -> list[str]:
        """What has not arrived yet, with reasons."""
        return [*self.webhooks.unsynced(), *(self.authority.unsynced() if self.authority else ())]


@asynccontextmanager
async def joined(api: Connection, settings: Settings) -> AsyncIterator[Replica]:
    """Share state over a connection, which the caller closes. At the end, release the Lease if it is held."""
    changed = asyncio.Event()
    namespace = settings.cluster.namespace
    authority = SecretStore(api, namespace, settings.tls.secret, changed=changed) if settings.tls.secret else None
    began = authority.reread if authority is not None else (lambda: None)
    leadership = Leadership(api, namespace, settings.cluster.lease, identity(), changed=changed, began=began)
    webhooks = Webhooks(api, settings.registration.name, noticed=changed.set, policies=settings.registration.apply)
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


def identity() -> str:
    """The identity of this process: its Pod and a unique part, because one that restarts in its Pod is another."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
