"""The certificates: served from files or made here, kept with their CA in Secrets by manage, trusted by API servers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import structlog
from cryptography.x509 import Certificate

from certs.errors import CertificateError, ForeignFileError, PemError, StoreError
from certs.material import Authority, Bundle, Leaf, issued_by, titled
from certs.plan import (
    BUNDLE,
    CA_CERT,
    LEAF_CERT,
    LEAF_KEY,
    Ensured,
    ensure,
    find_leaf,
    plan_authority,
    plan_leaf,
    usable_authority,
)
from certs.serving import FollowedFiles, ServingContext
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.lease import Leadership, Replica, SecretStore
from webhook.cluster.replicas.webhooks import Webhooks
from webhook.configuration.settings import Registration, SettingsError, Tls
from webhook.metrics import Metrics
from webhook.registration.configurations import is_own
from webhook.registration.registrar import Registrar

Trusted = Callable[[Certificate], bool]
"""Whether all clients know a CA."""


def by_all(_authority: Certificate) -> bool:
    """True for every CA: for clients that learn of CAs from others or not at all."""
    return True


class Renewed:
    """Certificates that have to be kept up to date: those that this process serves, or makes for others.

    This base class is for those that somebody else makes for others: there is nothing to do.
    """

    @property
    def ca_bundle(self) -> bytes | None:
        """PEM with which clients trust them, empty for the system's roots; None while there is no CA yet."""
        return b""

    def look(self) -> None:
        """Check for what is due."""

    async def save(self) -> None:
        """Store what is due, if this process should write. Failures are logged."""

    def install(self, trusted: Trusted = by_all) -> None:
        """Use the outcome of the last look."""

    def unready(self) -> list[str]:
        """Why there is no certificate to serve; empty if there is one."""
        return []


class Certificates(Renewed):
    """Keeps the live TLS context up to date.

    Every few seconds, and when something may have changed: `look`, write the webhook configurations, `install`. All
    decisions use the current wall clock, so that a machine that slept makes no difference. Raises SettingsError if the
    settings contain half of a pair.
    """

    def __init__(
        self, settings: Tls, metrics: Metrics, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        if bool(settings.cert_file) != bool(settings.key_file):
            raise SettingsError("tls: certFile and keyFile belong together; give both or neither")
        self.serving = ServingContext()
        self._metrics = metrics
        self._now = now
        self._log = structlog.get_logger()
        self._files = FollowedFiles(Path(settings.cert_file), Path(settings.key_file)) if settings.cert_file else None
        self._directory, self._names = Path(settings.directory), settings.names
        self._own: Ensured | None = None
        self._clients = FollowedFiles(Path(settings.client_ca_file)) if settings.client_ca_file else None
        self._refused = self._clients_refused = ""
        self._unknown = False

    @property
    def ca_bundle(self) -> bytes | None:
        """PEM with which clients trust the served certificate and the next one; empty if others made the files."""
        return b"" if self._own is None else self._own.bundle.pem

    def start(self) -> None:
        """Serve the current pair. It may appear later, unlike the CAs of clients.

        Raises CertificateError if no pair can be made, or the CAs of clients cannot be used.
        """
        if self._clients is not None and (reason := self._look_at_clients(self._clients)):
            raise StoreError(f"tls.clientCaFile: {reason}")
        self._look()
        self.install()

    def look(self) -> None:
        """Check for changes. A new certificate of the service's own is not served yet.

        Errors are logged and change nothing.
        """
        if self._clients is not None:
            reason = self._look_at_clients(self._clients)
            if reason and reason != self._clients_refused:
                self._log.warning("CAs of clients refused", reason=reason)
            self._clients_refused = reason
        try:
            self._look()
        except CertificateError as error:
            self._log.error("certificate not renewed", reason=str(error))

    def install(self, trusted: Trusted = by_all) -> None:
        """Serve the leaf from the last look. If clients do not know its CA, only if the served leaf is unusable."""
        if self._own is not None:
            self._install(self._own.leaf, self._own.authority, trusted)
        if self.serving.leaf is not None:
            self._metrics.certificate_expiry.set(self.serving.leaf.not_after.timestamp())

    def unready(self) -> list[str]:
        """Why clients cannot connect; empty if they can."""
        reason = self.serving.unready_reason(self._now())
        if reason is None and self._unknown:
            reason = "clients do not know the CA of the served certificate yet"
        return [reason] if reason else []

    def _install(self, leaf: Leaf, authority: Authority, trusted: Trusted) -> None:
        shown = self.serving.leaf
        good = shown is not None and not self.serving.unready_reason(self._now())
        if leaf != shown:
            known = shown is not None and issued_by(shown.certificate, authority.certificate)
            if good and not known and not trusted(authority.certificate):
                return
            self.serving.swap(leaf.cert_pem, leaf.key_pem)
            self._metrics.authority_expiry.set(authority.not_after.timestamp())
            self._log_served(leaf)
            # Clients do not trust it yet. They should rather use a replica that serves a leaf of the old CA.
            self._unknown = self._unknown if known else True
        self._unknown = self._unknown and not trusted(authority.certificate)

    def _look(self) -> None:
        if self._files is None:
            self._own = ensure(self._directory, self._names, self._now())
            for reason in self._own.reasons:
                self._log.info("certificate", reason=reason)
            return
        try:
            if (leaf := self.serving.follow(self._files)) is not None:
                self._log_served(leaf)
        except CertificateError as error:
            if str(error) != self._refused:  # log it once: it is checked every few seconds
                self._log.warning("certificate refused", reason=str(error))
            self._refused = str(error)
        else:
            self._refused = ""

    def _look_at_clients(self, file: FollowedFiles) -> str:
        """Require new CAs from the file. Return why they cannot be used; empty if they can."""
        try:
            bundle = self.serving.follow_clients(file)
        except CertificateError as error:
            return str(error)
        if bundle is not None:
            authorities = [titled(authority.subject) for authority in bundle]
            self._log.info("client certificates required", authorities=authorities)
        return ""

    def _log_served(self, leaf: Leaf) -> None:
        self._log.info("certificate served", fingerprint=leaf.fingerprint, expires=str(leaf.not_after))


class Upkeep:
    """Renews the certificate, has its CA registered, and serves it once its CA is trusted.

    registrar: None if nothing is registered. replica: None for a process that shares nothing with others. seconds:
    between checks while nothing happens. Each check uses the wall clock, so that after a machine slept, a renewal is
    late by at most one interval.
    """

    def __init__(
        self,
        certificates: Renewed,
        registrar: Registrar | None,
        metrics: Metrics,
        seconds: float,
        replica: Replica | None = None,
        trusted: Trusted = by_all,
    ) -> None:
        self._certificates = certificates
        self._registrar = registrar
        self._metrics = metrics
        self._seconds = seconds
        self._replica = replica
        self._trusted = trusted
        self._woken = asyncio.Event() if replica is None else replica.changed
        self._registered: tuple[bytes | None, bool] = (None, False)
        self._looked = False

    @property
    def writing(self) -> bool:
        """Whether this process should write webhook configurations, and has checked the CA since then."""
        return self._looked and self._replica is not None and self._replica.writing

    async def run(self) -> NoReturn:
        """Check and renew until cancelled."""
        while True:
            self._woken.clear()
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - whatever it is, it must not end this, or a certificate would expire unseen
                structlog.get_logger().exception("upkeep failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._woken.wait()

    async def look(self) -> None:
        """Check once, and do what is due."""
        writing = self._replica is not None and self._replica.writing
        self._certificates.look()
        self._looked = writing
        try:
            await self._certificates.save()
        finally:  # serve a renewed leaf even if saving the CA failed
            self._metrics.leader.set(self._replica is not None and self._replica.leadership.leading)
            now = self._certificates.ca_bundle, self.writing
            if self._registrar is not None and now != self._registered:
                self._registered = now
                self._registrar.look()
            self._certificates.install(self._trusted)


# API servers watch webhook configurations independently. Even one that is busy or briefly cut off from etcd should
# learn of a new CA within this time, before it sees a certificate of it.
SETTLED_SECONDS = 10.0


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
        self._since: dict[Certificate, float] = {}  # infinity for those that are not there

    def __call__(self, authority: Certificate) -> bool:
        """Whether API servers know this CA."""
        watch, now = self._webhooks.state, self._monotonic()
        since = self._since.get(authority, now if self._since else -math.inf)
        if watch.synced:  # before, it may have been there for a long time
            # It is there if each caBundle of the service has it. If nothing is registered, nobody calls. A bundle that
            # cannot be read, or is empty and means the system's roots, has no CA.
            entries = (entry for hooks in watch.current.values() for entry in hooks.get("webhooks") or ())
            bundles = {entry["clientConfig"].get("caBundle", "") for entry in entries if is_own(entry)}
            is_there = True
            for encoded in bundles:
                try:
                    is_there &= authority in Bundle.from_pem(base64.b64decode(encoded, validate=True))
                except (PemError, binascii.Error):
                    is_there = False
            self._since[authority] = min(since, now) if is_there else math.inf
        return now - self._since.get(authority, math.inf) >= SETTLED_SECONDS


Handshakes = Callable[[], Awaitable[Sequence[Certificate | None]]]
"""Returns the leaf that each replica shows; None for one that shows none."""


class Issuance(Renewed):
    """Keeps the CA and the replicas' leaf up to date, each in a Secret of its own.

    The leader makes and renews both, and overwrites anything else there, because the Secrets' names are reserved. Even
    the leader uses a new CA only after it is stored, so that of two leaders one wins. The bundle, with which clients
    trust what the CA signed, remembers earlier CAs, so that a lost Secret breaks nobody's trust.

    A rotation has three steps, each of which waits for the one before: the bundle with both CAs is registered, the leaf
    of the new CA is stored, the old CA leaves the bundle. The last one waits for handshakes with all replicas, because
    each takes a new leaf from its volume when its kubelet brings it.
    """

    def __init__(
        self,
        ca: SecretStore,
        secret: SecretStore,
        leader: Leadership,
        names: Sequence[str],
        trusted: Trusted,
        handshakes: Handshakes,
        metrics: Metrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._ca = ca
        self._secret = secret
        self._leader = leader
        self._names = names
        self._trusted = trusted
        self._handshakes = handshakes
        self._metrics = metrics
        self._now = now
        self._authority: Authority | None = None
        self._bundle = Bundle()
        # What to write into the CA's Secret, and the reasons, one sentence each, for the log.
        self._rewrite: tuple[Mapping[str, bytes], Sequence[str]] | None = None
        self._lacking = ""  # why the stored CA cannot be used
        self._unstored = ""  # why it could not be stored
        self._problem = ""  # why the leaf could not be
        self._log = structlog.get_logger()

    @property
    def ca_bundle(self) -> bytes | None:
        """PEM with which clients trust the stored leaf and the next one; None while there is no CA yet."""
        return self._bundle.pem if self._authority is not None else None

    def look(self) -> None:
        """Decide about the CA, by the contents of its Secret."""
        if self._ca.unsynced():
            return
        now, stored, title = self._now(), self._ca.stored, self._ca.title
        reasons: list[str] = []
        try:
            plan = plan_authority(stored, now, remembered=self._bundle)
            problem = f"the CA in {title} cannot be used: {plan.problem}" if plan.problem else ""
        except ForeignFileError as error:
            plan = plan_authority({}, now, remembered=self._bundle)
            problem = f"{title} is not what its name is reserved for: {error}"
            reasons.append(f"{problem}, and is overwritten")
        if not self._ca.exists and self._bundle:
            reasons.append(f"{title} is gone, and is made again; the CAs that it held are trusted until they expire")

        # Use what is usable before the plan is executed.
        usable = usable_authority(stored, now) if plan.problem else plan.authority
        if plan.problem:  # the plan's CA is new, and another process may also make one
            self._bundle = Bundle(one for one in plan.bundle if one != plan.authority.certificate)
            self._authority = usable or self._authority
        else:
            self._bundle, self._authority = plan.bundle, plan.authority
        self._lacking = "" if usable else problem if self._ca.exists else f"{title} does not exist"
        writing = plan.writes and self._leader.leading
        self._rewrite = (plan.writes, (*reasons, *plan.reasons)) if writing else None

    async def save(self) -> None:
        """If this process is the leader, store what is due: CA, leaf, a bundle without old CAs. Failures are logged."""
        await self._save_authority()
        authority = self._authority
        if authority is None or not self._leader.leading or not self._secret.current:
            return
        # It remembers since when it has seen the CA registered, so it is asked in each turn.
        trusted = self._trusted(authority.certificate)
        if await self._stored(authority, trusted=trusted):
            return

        # Drop earlier CAs from the bundle once no replica serves what they signed.
        leaf = self._leaf()
        if (
            len(self._bundle) == 1
            or not trusted
            or leaf is None
            or not issued_by(leaf.certificate, authority.certificate)
        ):
            return
        shown = await self._handshakes()
        if not shown or not all(one is not None and issued_by(one, authority.certificate) for one in shown):
            return
        if self._rewrite is None:
            bundle = Bundle((authority.certificate,))
            dropped = ", ".join(titled(earlier.subject) for earlier in self._bundle if earlier not in bundle)
            reason = f"{BUNDLE} no longer holds {dropped}, since all replicas serve what the current CA signed"
            self._rewrite = ({BUNDLE: bundle.pem}, [reason])
            await self._save_authority()

    def install(self, trusted: Trusted = by_all) -> None:  # noqa: ARG002 - of the interface
        """Show in metrics when CA and leaf expire."""
        if self._authority is not None:
            self._metrics.authority_expiry.set(self._authority.not_after.timestamp())
        if (leaf := self._leaf()) is not None:
            self._metrics.certificate_expiry.set(leaf.not_after.timestamp())

    def unready(self) -> list[str]:
        """Why replicas have no certificate to serve; empty if they have one."""
        leaf, now = self._leaf(), self._now()
        if leaf is not None and leaf.not_before <= now <= leaf.not_after:
            return []
        reasons = self._problem or self._without_authority() or "; ".join(self._secret.stale()) or "it is not made yet"
        return [f"there is no valid certificate in {self._secret.title}: {reasons}"]

    def _without_authority(self) -> str:
        """Why there is no CA to issue a new leaf; empty if there is one."""
        if unsynced := self._ca.unsynced():
            return "; ".join(unsynced)
        if not self._lacking or self._leader.leading:
            return self._unstored
        who = f"{self._leader.holder}, which holds the lease," if self._leader.holder else "whoever gets the lease"
        return f"{self._lacking}; {who} renews it"

    async def _save_authority(self) -> None:
        """Store what the last look found missing, and use it."""
        rewrite, self._rewrite = self._rewrite, None
        if rewrite is None:
            return
        contents, reasons = rewrite
        try:
            await self._ca.write(contents)
        except ClusterError as error:
            if error.status == 409:
                self._log.info("certificate", reason=f"{error}; another writer was faster; it is read again")
                return
            if str(error) != self._unstored:  # log it once: it is tried again every few seconds
                self._log.error("certificate not renewed", reason=str(error))
            self._unstored = str(error)
            return
        self._unstored = ""
        for reason in reasons:
            self._log.info("certificate", reason=reason)
        self.look()

    async def _stored(self, authority: Authority, *, trusted: bool) -> bool:
        """Store a leaf if that is due. Return whether it was, or could not be written."""
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
            if str(error) != self._problem:  # log it once: it is tried again every few seconds
                self._log.error("certificate not renewed", reason=str(error))
            self._problem = str(error)
            return isinstance(error, ClusterError)
        self._problem = ""
        self._log.info("certificate", reason=reason)
        return True

    def _leaf(self) -> Leaf | None:
        try:
            return find_leaf(self._secret.stored).pair
        except ForeignFileError:
            return None
