"""The certificate that is served: a pair of files that somebody else renews, or one of the service's own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import structlog

from certs.errors import CertificateError
from certs.filepair import Changed, Failed, FilePair
from certs.leaf import Leaf
from certs.serving import ServingContext
from certs.store import DirectoryStore, ensure
from webhook.metrics import Metrics
from webhook.settings import SettingsError, Tls


class Certificates:
    """Keeps the live TLS context up to date.

    ca_bundle: PEM by which clients trust the pair; empty where the files' issuer is not known here.
    Raises SettingsError where only one of the two files is named.
    """

    def __init__(self, settings: Tls, metrics: Metrics) -> None:
        if bool(settings.cert_file) != bool(settings.key_file):
            raise SettingsError("tls: certFile and keyFile belong together; give both or neither")
        self.serving = ServingContext()
        self.ca_bundle = b""
        self._settings = settings
        self._metrics = metrics
        self._log = structlog.get_logger()
        self._made: Leaf | None = None
        self._refused = ""
        self._files = FilePair(Path(settings.cert_file), Path(settings.key_file)) if settings.cert_file else None

    def start(self) -> None:
        """Serve the pair that there is. Files may come later; raises CertificateError where none can be made."""
        self._look()
        self.install()

    def look(self) -> None:
        """Look again for something new, without serving it yet; what is wrong is logged and changes nothing."""
        try:
            self._look()
        except CertificateError as error:
            self._log.error("certificate not renewed", reason=str(error))

    def install(self) -> None:
        """Serve what the last look found; after a new CA only once the API server has been told of it."""
        if self._made is not None and self._made.fingerprint != self.serving.fingerprint:
            self.serving.swap(self._made.cert_pem, self._made.key_pem)
            self._log_served()
        if self.serving.not_after is not None:
            self._metrics.certificate_expiry.set(self.serving.not_after.timestamp())

    def unready(self) -> list[str]:
        """Why clients cannot connect, if they cannot."""
        reason = self.serving.unready_reason(datetime.now(UTC))
        return [reason] if reason else []

    def _look(self) -> None:
        if self._files:
            outcome = self.serving.follow(self._files)
            if isinstance(outcome, Failed):
                if outcome.reason != self._refused:  # it is looked at every few seconds
                    self._log.warning("certificate refused", reason=outcome.reason)
                self._refused = outcome.reason
            else:
                self._refused = ""
            if isinstance(outcome, Changed):
                self._log_served()
            return
        ensured = ensure(DirectoryStore(Path(self._settings.directory)), self._settings.names, datetime.now(UTC))
        self._made, self.ca_bundle = ensured.leaf, ensured.bundle.pem
        for reason in ensured.reasons:
            self._log.info("certificate", reason=reason)

    def _log_served(self) -> None:
        leaf = self.serving
        self._log.info("certificate served", fingerprint=leaf.fingerprint, expires=str(leaf.not_after))
