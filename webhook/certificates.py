"""The served certificate: a pair of files that somebody else renews, or one that the service makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import structlog
from cryptography import x509

from certs.authority import Authority, Leaf
from certs.errors import CertificateError, StoreError
from certs.material import issued_by, titled
from certs.plan import Ensured
from certs.serving import FollowedFiles, ServingContext
from certs.store import ensure
from webhook.cluster.replicas.lease import Replica
from webhook.configuration.settings import SettingsError, Tls
from webhook.metrics import Metrics
from webhook.registration.registrar import Registrar

Trusted = Callable[[x509.Certificate], bool]
"""Whether all clients know a CA."""


def by_all(_authority: x509.Certificate) -> bool:
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
        self._told: tuple[bytes | None, bool] = (None, False)
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
            self._tell()
            self._certificates.install(self._trusted)

    def _tell(self) -> None:
        self._metrics.leader.set(self._replica is not None and self._replica.leadership.leading)
        now = self._certificates.ca_bundle, self.writing
        if self._registrar is not None and now != self._told:
            self._told = now
            self._registrar.look()
