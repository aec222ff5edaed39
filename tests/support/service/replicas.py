"""Processes that share a CA in a Secret, with a clock and webhook configurations that the test controls."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from structlog.testing import capture_logs
from support.api.guardedapi import GuardedApi
from support.patience import until

from certs.material import Bundle
from certs.verify import verify
from webhook.authority import SharedAuthority
from webhook.certificates import Certificates
from webhook.cluster.api.client import Connection
from webhook.cluster.watches.secrets import SecretStore
from webhook.configuration.settings import Tls
from webhook.metrics import Metrics

SECRETS = "/api/v1/namespaces/cks/secrets"
NAMES = ("cks-admission.cks.svc", "localhost")


class World:
    """What all replicas share: the API server, the time, the leader, and the bundle that clients trust.

    holders: the names of those that take themselves for the leader. bundle: what the webhook configurations carry.
    """

    def __init__(self, server: GuardedApi, api: Connection, now: datetime) -> None:
        self.server = server
        self.api = api
        self.now = now
        self.holders = ["a"]
        self.bundle = Bundle()
        self.replicas: list[Replica] = []
        self._judged: set[object] = set()

    @property
    def stored(self) -> dict[str, bytes]:
        """The content of the Secret."""
        found = self.server.get(SECRETS, "ca")
        return {key: base64.b64decode(text) for key, text in found["data"].items()} if found else {}

    def store(self, contents: Mapping[str, bytes | None]) -> None:
        """Change the Secret, as somebody with kubectl does; None to delete a key."""
        changed = {**self.stored, **contents}
        data = {name: base64.b64encode(content).decode() for name, content in changed.items() if content is not None}
        self.server.put(SECRETS, {"metadata": {"name": "ca"}, "data": data})

    @asynccontextmanager
    async def replica(self, name: str) -> AsyncIterator[Replica]:
        """A process that knows the content of the Secret."""
        started = Replica(self, name)
        await started.secret.start()
        self.replicas.append(started)
        try:
            await started.told()
            yield started
        finally:
            self.replicas.remove(started)
            await started.secret.stop()

    async def turn(self) -> None:
        """Let each replica run one turn of its renewal, and let followers read what the others wrote."""
        for replica in list(self.replicas):
            await replica.told()
            await replica.turn()
            assert replica.certificates.unready() == []

    def check(self) -> None:
        """Assert that clients trust every ready replica: its certificate is valid for their current bundle."""
        for replica in self.replicas:
            leaf = replica.certificates.serving.leaf
            if leaf is not None and not replica.certificates.unready():
                judged = (leaf.fingerprint, self.bundle, self.now)
                if judged in self._judged:
                    continue
                self._judged.add(judged)
                findings = verify(leaf.chain, self.bundle, NAMES, self.now)
                assert [finding.text for finding in findings if not finding.ok] == [], replica.name


class Replica:
    """One process, which runs a turn of its renewal when the test says so."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.metrics = Metrics()
        self.secret = SecretStore(world.api, "cks", "ca")
        self.shared = SharedAuthority(self.secret, self, NAMES)
        settings = Tls(secret="ca", names=NAMES)
        self.certificates = Certificates(settings, self.metrics, self.shared, lambda: world.now)
        self._world = world

    @property
    def leading(self) -> bool:
        """Whether the process considers itself the leader."""
        return self.name in self._world.holders

    @property
    def holder(self) -> str:
        """The name of the process that it considers the leader."""
        return self._world.holders[0] if self._world.holders else ""

    @property
    def shown(self) -> str | None:
        """The fingerprint of the certificate that it serves."""
        return self.certificates.serving.fingerprint

    async def told(self) -> None:
        """Wait until it knows the content of the Secret."""
        await until(lambda: not self.secret.unsynced() and self.secret.stored == self._world.stored)

    async def turn(self) -> None:
        """What a process does every few seconds, with a look at what clients would say after each step."""
        self.certificates.look()
        self._world.check()
        await self.certificates.save()
        self._world.check()
        self.register()
        self.install()

    def register(self) -> None:
        """Give clients the bundle to trust, as the leader does."""
        bundle = self.certificates.ca_bundle
        if self.leading and bundle is not None:
            self._world.bundle = Bundle.from_pem(bundle)

    def install(self) -> None:
        """Serve the leaf whose CA clients know by now."""
        self.certificates.install(lambda authority: authority in self._world.bundle)
        self._world.check()

    async def handshake(self, bundle: Bundle) -> str:
        """A handshake of a client that trusts the bundle: `shown`, or why the client refuses. By the host's clock."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(cadata=bundle.pem.decode())

        async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        listening = await asyncio.start_server(close, "127.0.0.1", 0, ssl=self.certificates.serving.context)
        port = listening.sockets[0].getsockname()[1]
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAMES[0])
            writer.transport.abort()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        finally:
            listening.close()
            await listening.wait_closed()
        return "shown"


@dataclass(frozen=True)
class Logged:
    """The log entries, from which tests read the reasons."""

    entries: Sequence[Any]

    def reasons(self, event: str = "certificate") -> list[str]:
        """The reasons that were logged with an event."""
        return [entry["reason"] for entry in self.entries if entry["event"] == event]

    def shared(self) -> list[str]:
        """The reasons for changes of the Secret."""
        return [reason for reason in self.reasons() if not reason.startswith("the leaf was ")]

    def own(self) -> list[str]:
        """The reasons for changes of the processes' leaves."""
        return [reason for reason in self.reasons() if reason.startswith("the leaf was ")]


@contextmanager
def logging() -> Iterator[Logged]:
    """What is logged within the block."""
    with capture_logs() as entries:
        yield Logged(entries)
