"""The CA and the replicas' certificate in Secrets, which manage keeps, and the CAs that API servers know."""

from __future__ import annotations

import base64
import binascii
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import structlog
from cryptography import x509
from cryptography.x509 import Certificate

from certs.authority import Authority, Leaf
from certs.errors import CertificateError, ForeignFileError, PemError
from certs.material import Bundle, issued_by, titled
from certs.plan import (
    BUNDLE,
    CA_CERT,
    LEAF_CERT,
    LEAF_KEY,
    AuthorityPlan,
    find_leaf,
    plan_authority,
    plan_leaf,
    usable_authority,
)
from webhook.certificates import Renewed, Trusted, by_all
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.lease import Leadership
from webhook.cluster.replicas.webhooks import WatchState, Webhooks
from webhook.cluster.watches.secrets import SecretStore
from webhook.configuration.settings import Registration
from webhook.metrics import Metrics
from webhook.registration.configurations import is_own


class _Rewrite(NamedTuple):
    """Contents to write into the Secret, and the reasons, one sentence each, for the log."""

    contents: Mapping[str, bytes]
    reasons: Sequence[str]


class StoredAuthority:
    """The current CA, None while there is none, and the bundle with which clients trust what it signed.

    The leader makes and renews the CA in the Secret, and overwrites anything else there, because the Secret's name is
    reserved. Even the leader uses a new CA only after it is stored, so that of two leaders one wins. The bundle
    remembers earlier CAs, so that a lost Secret breaks nobody's trust.
    """

    def __init__(self, secret: SecretStore, leader: Leadership) -> None:
        self.authority: Authority | None = None
        self.bundle = Bundle()
        self._secret = secret
        self._leader = leader
        self._rewrite: _Rewrite | None = None
        self._lacking = ""  # why the stored CA cannot be used
        self._problem = ""  # why it could not be stored
        self._log = structlog.get_logger()

    def look(self, now: datetime) -> None:
        """Decide about the contents of the Secret."""
        if not self._secret.unsynced():
            self._decide(now)

    async def retire(self, now: datetime) -> None:
        """Store a bundle with the current CA alone: nobody serves what earlier ones signed. Failures are logged."""
        if self.authority is None or self._rewrite is not None:
            return
        bundle = Bundle((self.authority.certificate,))
        dropped = ", ".join(titled(earlier.subject) for earlier in self.bundle if earlier not in bundle)
        reason = f"{BUNDLE} no longer holds {dropped}, since all replicas serve what the current CA signed"
        self._rewrite = _Rewrite({BUNDLE: bundle.pem}, [reason])
        await self.save(now)

    async def save(self, now: datetime) -> None:
        """If this process is the leader, store what the last look found missing, and use it. Failures are logged."""
        rewrite, self._rewrite = self._rewrite, None
        if rewrite is None:
            return
        try:
            await self._secret.write(rewrite.contents)
        except ClusterError as error:
            self._failed(error)
            return
        self._problem = ""
        for reason in rewrite.reasons:
            self._log.info("certificate", reason=reason)
        self.look(now)

    def lacking(self) -> str:
        """Why there is no CA to issue a new leaf; empty if there is one."""
        if unsynced := self._secret.unsynced():
            return "; ".join(unsynced)
        if not self._lacking or self._leader.leading:
            return self._problem
        who = f"{self._leader.holder}, which holds the lease," if self._leader.holder else "whoever gets the lease"
        return f"{self._lacking}; {who} renews it"

    def _decide(self, now: datetime) -> None:
        stored, title = self._secret.stored, self._secret.title
        reasons: list[str] = []
        try:
            plan = plan_authority(stored, now, remembered=self.bundle)
            problem = f"the CA in {title} cannot be used: {plan.problem}" if plan.problem else ""
        except ForeignFileError as error:
            plan = plan_authority({}, now, remembered=self.bundle)
            problem = f"{title} is not what its name is reserved for: {error}"
            reasons.append(f"{problem}, and is overwritten")
        if not self._secret.exists and self.bundle:
            reasons.append(f"{title} is gone, and is made again; the CAs that it held are trusted until they expire")
        usable = usable_authority(stored, now) if plan.problem else plan.authority
        self._use(plan, usable)
        self._lacking = "" if usable else problem if self._secret.exists else f"{title} does not exist"
        writing = plan.writes and self._leader.leading
        self._rewrite = _Rewrite(plan.writes, (*reasons, *plan.reasons)) if writing else None

    def _use(self, plan: AuthorityPlan, usable: Authority | None) -> None:
        """Use what is usable before the plan is executed."""
        if plan.problem:  # the plan's CA is new, and another process may also make one
            self.bundle = Bundle(one for one in plan.bundle if one != plan.authority.certificate)
            self.authority = usable or self.authority
        else:
            self.bundle = plan.bundle
            self.authority = plan.authority

    def _failed(self, error: ClusterError) -> None:
        if error.status == 409:
            self._log.info("certificate", reason=f"{error}; another writer was faster; it is read again")
            return
        if str(error) != self._problem:  # log it once: it is tried again every few seconds
            self._log.error("certificate not renewed", reason=str(error))
        self._problem = str(error)


# API servers watch webhook configurations independently. Even one that is busy or briefly cut off from etcd should
# learn of a new CA within this time, before it sees a certificate of it.
SETTLED_SECONDS = 10.0


def is_registered(authority: x509.Certificate, watch: WatchState) -> bool:
    """Whether every entry of the service has the CA in its caBundle.

    It is true if nothing is registered, because then nobody calls.
    """
    entries = [
        entry
        for configuration in watch.current.values()
        for entry in configuration.get("webhooks") or ()
        if is_own(entry)
    ]
    bundles = {entry["clientConfig"].get("caBundle", "") for entry in entries}
    return all(authority in bundle for bundle in map(_bundle, bundles))


def trusted(registration: Registration, webhooks: Webhooks | None) -> Trusted:
    """The check whether API servers know a CA: by the webhook configurations, if the service writes its CA there."""
    others = registration.ca_file or registration.inject_ca_from
    return TrustWatch(webhooks) if webhooks is not None and registration.writes and not others else by_all


class TrustWatch:
    """Whether API servers know a CA: whether it has been in the webhook configurations for long enough.

    The first CA that is checked has been, if it is there when the process starts. A later one may have been added a
    moment before this process noticed it, because events of different watches do not arrive in order.
    """

    def __init__(self, webhooks: Webhooks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._webhooks = webhooks
        self._monotonic = monotonic
        self._since: dict[x509.Certificate, float] = {}  # infinity for those that are not there

    def __call__(self, authority: x509.Certificate) -> bool:
        """Whether API servers know this CA."""
        watch, now = self._webhooks.state, self._monotonic()
        since = self._since.get(authority, now if self._since else -math.inf)
        if watch.synced:  # before, it may have been there for a long time
            self._since[authority] = min(since, now) if is_registered(authority, watch) else math.inf
        return now - self._since.get(authority, math.inf) >= SETTLED_SECONDS


def _bundle(encoded: str) -> Bundle:
    """The CAs of a caBundle; none if it cannot be read, or is empty and means the system's roots."""
    try:
        return Bundle.from_pem(base64.b64decode(encoded, validate=True))
    except (PemError, binascii.Error):
        return Bundle()


Handshakes = Callable[[], Awaitable[Sequence[Certificate | None]]]
"""Returns the leaf that each replica shows; None for one that shows none."""


class Issuance(Renewed):
    """Keeps the CA and the replicas' leaf up to date, each in a Secret of its own.

    A rotation has three steps, each of which waits for the one before: the bundle with both CAs is registered, the leaf
    of the new CA is stored, the old CA leaves the bundle. The last one waits for handshakes with all replicas, because
    each takes a new leaf from its volume when its kubelet brings it.
    """

    def __init__(
        self,
        authority: StoredAuthority,
        secret: SecretStore,
        leader: Leadership,
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
        stored, now = self._secret.stored, self._now()
        try:
            try:
                leaf, reason = plan_leaf(stored, authority, self._names, now, trusted=trusted)
            except ForeignFileError as error:
                leaf, _ = plan_leaf({}, authority, self._names, now, trusted=trusted)
                reason = f"{self._secret.title} is not what its name is reserved for: {error}, and is overwritten"
            if not reason:
                return False
            await self._secret.write({LEAF_CERT: leaf.cert_pem, LEAF_KEY: leaf.key_pem, CA_CERT: authority.cert_pem})
        except (CertificateError, ClusterError) as error:
            self._failed(str(error))
            return isinstance(error, ClusterError)
        self._problem = ""
        self._log.info("certificate", reason=reason)
        return True

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
