"""The certificate that is served: a pair of files that somebody else renews, or one of the service's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import structlog
from cryptography import x509

from certs.display import titled
from certs.errors import CertificateError, StoreError
from certs.serving import Changed, ChangedBundle, Failed, FileBundle, FilePair, ServingContext
from certs.storage.store import DirectoryStore, ensure
from certs.x509.authority import Authority
from certs.x509.bundle import Bundle
from certs.x509.certificate import issued_by
from certs.x509.leaf import Leaf
from webhook.configuration.settings import SettingsError, Tls
from webhook.metrics import Metrics

Trusted = Callable[[x509.Certificate], bool]
"""Whether all clients have been told of a CA."""


def by_all(_authority: x509.Certificate) -> bool:
    """For clients that are told by others, or by nobody: they are taken to know every CA."""
    return True


class Own(Protocol):
    """A CA of the service's own, a leaf of it, and the bundle by which clients trust the two.

    authority and leaf are None while there are none yet.
    """

    authority: Authority | None
    leaf: Leaf | None
    bundle: Bundle

    def look(self, now: datetime) -> None:
        """Find out what is there, and renew what is due. Raises CertificateError."""

    async def save(self, now: datetime) -> None:
        """Store what the last look found missing, where that takes the network."""

    def lacking(self) -> str:
        """Why there is no CA; empty where there is one."""


class OwnDirectory:
    """What the directory holds, as of the last look; see `Own`."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.authority: Authority | None = None
        self.leaf: Leaf | None = None
        self.bundle = Bundle()
        self._store = DirectoryStore(path)
        self._names = names
        self._log = structlog.get_logger()

    def look(self, now: datetime) -> None:
        """Make and renew what is due. Raises CertificateError."""
        ensured = ensure(self._store, self._names, now)
        self.authority, self.leaf, self.bundle = ensured.authority, ensured.leaf, ensured.bundle
        for reason in ensured.reasons:
            self._log.info("certificate", reason=reason)

    async def save(self, now: datetime) -> None:
        """Nothing: what is due is stored at each look."""

    def lacking(self) -> str:
        """Nothing: where there is no CA, one is made."""
        return ""


class Certificates:
    """Keeps the live TLS context up to date.

    Every few seconds, and when something may have changed: `look`, `save`, write the webhook configurations, `install`.
    All decisions are by the wall clock at that moment, so that nothing depends on how long somebody slept.

    shared: the CA in the Secret that the settings name; none where they name none.
    Raises SettingsError where the settings ask for two ways at once or for half of one.
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
        """PEM by which clients trust what is served and what will be next.

        Empty where others made the files; None while there is no CA yet, and nothing is to be written for clients.
        """
        if self._own is None:
            return b""
        return self._own.bundle.pem if self._own.authority is not None else None

    def start(self, trusted: Trusted = by_all) -> None:
        """Serve the pair that there is. It may come later, unlike the CAs of clients. trusted: as for `install`.

        Raises CertificateError where no pair can be made, or the CAs of clients cannot be used.
        """
        if self._clients is not None and (reason := self._look_at_clients(self._clients)):
            raise StoreError(f"tls.clientCaFile: {reason}")
        self._look()
        self.install(trusted)

    def look(self) -> None:
        """Look again for something new, without serving what is new of the service's own.

        What is wrong is logged and changes nothing.
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
        """Store what the last look found missing, where this process is the one to do that; failures are logged."""
        if self._own is not None:
            await self._own.save(self._now())

    def install(self, trusted: Trusted = by_all) -> None:
        """Serve what the last look found; one of a CA that clients do not know only if that served is no good."""
        if self._own is not None and self._own.leaf is not None and self._own.authority is not None:
            self._install(self._own.leaf, self._own.authority, trusted)
        if self.serving.not_after is not None:
            self._metrics.certificate_expiry.set(self.serving.not_after.timestamp())

    def unready(self) -> list[str]:
        """Why clients cannot connect, if they cannot."""
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
            # Of no use to clients yet: they should rather be sent to a replica that shows a leaf of the old CA.
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
        if reason and reason != self._refused:  # it is looked at every few seconds
            self._log.warning("certificate refused", reason=reason)
        self._refused = reason
        if isinstance(outcome, Changed):
            self._log_served()

    def _look_at_clients(self, file: FileBundle) -> str:
        """Require what is new in the file; why that cannot be used, if it cannot."""
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
