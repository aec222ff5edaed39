"""The served certificate: a pair of files that somebody else renews, or one that the service makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import structlog
from cryptography import x509

from certs.authority import Authority, Leaf
from certs.errors import CertificateError, StoreError
from certs.material import Bundle, issued_by, titled
from certs.serving import Changed, ChangedBundle, Failed, FileBundle, FilePair, ServingContext
from certs.store import DirectoryStore, ensure
from webhook.configuration.settings import SettingsError, Tls
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from webhook.cluster.replicas.replica import Replica
    from webhook.registration.registrar import Registrar


Trusted = Callable[[x509.Certificate], bool]
"""Whether all clients know a CA."""


def by_all(_authority: x509.Certificate) -> bool:
    """True for every CA: for clients that learn of CAs from others or not at all."""
    return True


class Own:
    """The service's own CA, a leaf from it, and the bundle with which clients trust the two.

    authority and leaf are None while they do not exist yet.
    """

    authority: Authority | None = None
    leaf: Leaf | None = None
    bundle = Bundle()

    def look(self, now: datetime) -> None:
        """Read what exists, and renew what is due. Raises CertificateError."""

    async def save(self, now: datetime) -> None:
        """Store what the last look found missing, if that needs the network. Failures are logged."""

    def lacking(self) -> str:
        """Why there is no CA to issue a new leaf; empty if there is one."""
        return ""


class OwnDirectory(Own):
    """The contents of the directory at the last look, which stores everything."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._store = DirectoryStore(path)
        self._names = names
        self._log = structlog.get_logger()

    def look(self, now: datetime) -> None:
        """Create and renew what is due. Raises CertificateError."""
        ensured = ensure(self._store, self._names, now)
        self.authority, self.leaf, self.bundle = ensured.authority, ensured.leaf, ensured.bundle
        for reason in ensured.reasons:
            self._log.info("certificate", reason=reason)


class Renewed:
    """Certificates that have to be kept up to date: those that this process serves, or makes for others.

    This base class is for those that somebody else makes for others: there is nothing to do.
    """

    @property
    def ca_bundle(self) -> bytes | None:
        """PEM with which clients trust them, empty for the system's roots; None while there is no CA yet."""
        return b""

    def start(self, trusted: Trusted = by_all) -> None:
        """Use what there is. trusted: as for `install`. Raises CertificateError."""

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

    Every few seconds, and when something may have changed: `look`, `save`, write the webhook configurations, `install`.
    All decisions use the current wall clock, so that a machine that slept makes no difference.

    shared: the CA in the Secret that the settings name; None if they name none. Raises SettingsError if the settings
    contain two sources of certificates, or half of one.
    """

    def __init__(
        self,
        settings: Tls,
        metrics: Metrics,
        shared: Own | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        _check(settings, shared)
        self.serving = ServingContext()
        self._metrics = metrics
        self._now = now
        self._log = structlog.get_logger()
        self._files = FilePair(Path(settings.cert_file), Path(settings.key_file)) if settings.cert_file else None
        self._own = None if self._files else shared or OwnDirectory(Path(settings.directory), settings.names)
        self._clients = FileBundle(Path(settings.client_ca_file)) if settings.client_ca_file else None
        self._refused = self._clients_refused = ""
        self._unknown = False

    @property
    def ca_bundle(self) -> bytes | None:
        """PEM with which clients trust the served certificate and the next one.

        Empty if others made the files. None while there is no CA yet; then nothing should be written for clients.
        """
        if self._own is None:
            return b""
        return self._own.bundle.pem if self._own.authority is not None else None

    def start(self, trusted: Trusted = by_all) -> None:
        """Serve the current pair. It may appear later, unlike the CAs of clients. trusted: as for `install`.

        Raises CertificateError if no pair can be made, or the CAs of clients cannot be used.
        """
        if self._clients is not None and (reason := self._look_at_clients(self._clients)):
            raise StoreError(f"tls.clientCaFile: {reason}")
        self._look()
        self.install(trusted)

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

    async def save(self) -> None:
        """Store what the last look found missing, if this process should write. Failures are logged."""
        if self._own is not None:
            await self._own.save(self._now())

    def install(self, trusted: Trusted = by_all) -> None:
        """Serve the leaf from the last look. If clients do not know its CA, only if the served leaf is unusable."""
        if self._own is not None and self._own.leaf is not None and self._own.authority is not None:
            self._install(self._own.leaf, self._own.authority, trusted)
        if self.serving.not_after is not None:
            self._metrics.certificate_expiry.set(self.serving.not_after.timestamp())

    def unready(self) -> list[str]:
        """Why clients cannot connect; empty if they can."""
        reason = self.serving.unready_reason(self._now())
        if reason is None:
            return ["clients have not been told yet of the CA of the served certificate"] if self._unknown else []
        lacking = self._own.lacking() if self._own else ""
        return [f"{reason}; {lacking}" if lacking else reason]

    def _install(self, leaf: Leaf, authority: Authority, trusted: Trusted) -> None:
        shown = self.serving.leaf
        good = shown is not None and not self.serving.unready_reason(self._now())
        if leaf != shown:
            known = shown is not None and issued_by(shown.certificate, authority.certificate)
            if good and not known and not trusted(authority.certificate):
                return
            self.serving.swap(leaf.cert_pem, leaf.key_pem)
            self._metrics.authority_expiry.set(authority.not_after.timestamp())
            self._log_served()
            # Clients do not trust it yet. They should rather use a replica that serves a leaf of the old CA.
            self._unknown = self._unknown if known else True
        self._unknown = self._unknown and not trusted(authority.certificate)

    def _look(self) -> None:
        if self._files is not None:
            self._follow(self._files)
        elif self._own is not None:
            self._own.look(self._now())

    def _follow(self, files: FilePair) -> None:
        outcome = self.serving.follow(files)
        reason = outcome.reason if isinstance(outcome, Failed) else ""
        if reason and reason != self._refused:  # log it once: it is checked every few seconds
            self._log.warning("certificate refused", reason=reason)
        self._refused = reason
        if isinstance(outcome, Changed):
            self._log_served()

    def _look_at_clients(self, file: FileBundle) -> str:
        """Require new CAs from the file. Return why they cannot be used; empty if they can."""
        outcome = self.serving.follow_clients(file)
        if isinstance(outcome, ChangedBundle):
            authorities = [titled(authority.subject) for authority in outcome.bundle]
            self._log.info("client certificates required", authorities=authorities)
        return outcome.reason if isinstance(outcome, Failed) else ""

    def _log_served(self) -> None:
        leaf = self.serving
        self._log.info("certificate served", fingerprint=leaf.fingerprint, expires=str(leaf.not_after))


def _check(settings: Tls, shared: Own | None) -> None:
    if bool(settings.cert_file) != bool(settings.key_file):
        raise SettingsError("tls: certFile and keyFile belong together; give both or neither")
    if settings.secret and settings.cert_file:
        raise SettingsError("tls: secret and certFile exclude each other; give one of them")
    if settings.secret and shared is None:
        raise SettingsError("tls.secret needs a cluster: set cluster.kubeconfig or cluster.inCluster")


# How long a start waits for a CA that another replica may be making.
FIRST_CERTIFICATE = 10.0


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
        self._told: tuple[bytes | None, bool] = (None, False)
        self._looked = False

    @property
    def writing(self) -> bool:
        """Whether this process should write webhook configurations, and has checked the CA since then."""
        return self._looked and self._replica is not None and self._replica.writing

    async def start(self) -> None:
        """Serve the current pair, or wait a while for one. Raises CertificateError."""
        if self._replica is None or self._replica.authority is None:
            self._certificates.start()
            return
        # The CA may already exist, but may not be registered with the API server yet.
        self._certificates.start(self._trusted)
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_CERTIFICATE):
                while self._certificates.unready():
                    self._woken.clear()
                    await self.look()
                    if self._certificates.unready():
                        await self._woken.wait()

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
            self._tell()
            self._certificates.install(self._trusted)

    def _tell(self) -> None:
        self._metrics.leader.set(self._replica is not None and self._replica.leadership.leading)
        now = self._certificates.ca_bundle, self.writing
        if self._registrar is not None and now != self._told:
            self._told = now
            self._registrar.look()
