"""The certificate that `manage` makes for all replicas, in a Secret that they mount."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from cryptography.x509 import Certificate

from certs.authority import Authority, Leaf
from certs.errors import CertificateError, ForeignFileError
from certs.material import issued_by
from certs.plan import CA_CERT, LEAF_CERT, LEAF_KEY, find_leaf, plan_stored_leaf
from webhook.cluster.api.errors import ClusterError
from webhook.metrics import Metrics
from webhook.tls.authority import Leader, StoredAuthority
from webhook.tls.certificates import Trusted, by_all

if TYPE_CHECKING:
    from webhook.cluster.watches.secrets import SecretStore

Handshakes = Callable[[], Awaitable[Sequence[Certificate | None]]]
"""Returns the leaf that each replica shows; None for one that shows none."""


class OthersCertificates:
    """The certificates of replicas that somebody else makes: there is nothing to do."""

    ca_bundle = b""

    def start(self, trusted: Trusted = by_all) -> None:
        """Do nothing."""

    def look(self) -> None:
        """Do nothing."""

    async def save(self) -> None:
        """Do nothing."""

    def install(self, trusted: Trusted = by_all) -> None:
        """Do nothing."""

    def unready(self) -> list[str]:
        """Always empty."""
        return []


class Issuance:
    """Keeps the CA and the replicas' leaf up to date, each in a Secret of its own.

    A rotation has three steps, each of which waits for the one before: the bundle with both CAs is registered, the leaf
    of the new CA is stored, the old CA leaves the bundle. The last one waits for handshakes with all replicas, because
    each takes a new leaf from its volume when its kubelet brings it.
    """

    def __init__(
        self,
        authority: StoredAuthority,
        secret: SecretStore,
        leader: Leader,
        names: Sequence[str],
        trusted: Trusted,
        handshakes: Handshakes,
        metrics: Metrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._authority = authority
        self._secret = secret
        self._leader = leader
        self._names = names
        self._trusted = trusted
        self._handshakes = handshakes
        self._metrics = metrics
        self._now = now
        self._problem = ""
        self._log = structlog.get_logger()

    @property
    def ca_bundle(self) -> bytes | None:
        """PEM with which clients trust the stored leaf and the next one; None while there is no CA yet."""
        return self._authority.bundle.pem if self._authority.authority is not None else None

    def start(self, trusted: Trusted = by_all) -> None:  # noqa: ARG002 - of the interface
        """Read what is stored."""
        self.look()

    def look(self) -> None:
        """Decide about the CA."""
        self._authority.look(self._now())

    async def save(self) -> None:
        """If this process is the leader, store what is due: CA, leaf, a bundle without old CAs. Failures are logged."""
        await self._authority.save(self._now())
        authority = self._authority.authority
        if authority is None or not self._leader.leading or not self._secret.current:
            return
        # It remembers since when it has seen the CA registered, so it is asked in each turn.
        trusted = self._trusted(authority.certificate)
        if not await self._stored(authority, trusted=trusted):
            await self._retire(authority, trusted=trusted)

    def install(self, trusted: Trusted = by_all) -> None:  # noqa: ARG002 - of the interface
        """Show in metrics when CA and leaf expire."""
        authority, leaf = self._authority.authority, self._leaf()
        if authority is not None:
            self._metrics.authority_expiry.set(authority.not_after.timestamp())
        if leaf is not None:
            self._metrics.certificate_expiry.set(leaf.not_after.timestamp())

    def unready(self) -> list[str]:
        """Why replicas have no certificate to serve; empty if they have one."""
        leaf, now = self._leaf(), self._now()
        if leaf is not None and leaf.not_before <= now <= leaf.not_after:
            return []
        reasons = self._problem or self._authority.lacking() or "; ".join(self._secret.stale()) or "it is not made yet"
        return [f"there is no valid certificate in {self._secret.title}: {reasons}"]

    def _leaf(self) -> Leaf | None:
        try:
            return find_leaf(self._secret.stored).pair
        except ForeignFileError:
            return None

    async def _stored(self, authority: Authority, *, trusted: bool) -> bool:
        """Store a leaf if one is due. Return whether one was due."""
        leaf, reason = self._due(authority, trusted=trusted)
        if leaf is None:
            return False
        contents = {LEAF_CERT: leaf.cert_pem, LEAF_KEY: leaf.key_pem, CA_CERT: authority.cert_pem}
        try:
            await self._secret.write(contents)
        except ClusterError as error:
            self._failed(str(error))
            return True
        self._problem = ""
        self._log.info("certificate", reason=reason)
        return True

    def _due(self, authority: Authority, *, trusted: bool) -> tuple[Leaf | None, str]:
        """The leaf to store and the reason; None if none is due."""
        now = self._now()
        try:
            return plan_stored_leaf(self._secret.stored, authority, self._names, now, trusted=trusted)
        except ForeignFileError as error:
            leaf, _ = plan_stored_leaf({}, authority, self._names, now, trusted=trusted)
            return leaf, f"{self._secret.title} is not what its name is reserved for: {error}, and is overwritten"
        except CertificateError as error:
            self._failed(str(error))
            return None, ""

    async def _retire(self, authority: Authority, *, trusted: bool) -> None:
        """Drop earlier CAs from the bundle once no replica serves what they signed."""
        leaf = self._leaf()
        if len(self._authority.bundle) == 1 or not trusted or leaf is None:
            return
        if not issued_by(leaf.certificate, authority.certificate):
            return
        shown = await self._handshakes()
        if shown and all(each is not None and issued_by(each, authority.certificate) for each in shown):
            await self._authority.retire(self._now())

    def _failed(self, reason: str) -> None:
        if reason != self._problem:  # log it once: it is tried again every few seconds
            self._log.error("certificate not renewed", reason=reason)
        self._problem = reason
