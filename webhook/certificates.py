"""The certificate that is served: a pair of files that somebody else renews, or one of the service's own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import structlog

from certs.errors import CertificateError
from certs.filepair import Changed, Failed, FilePair
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
        self._files = FilePair(Path(settings.cert_file), Path(settings.key_file)) if settings.cert_file else None

    def start(self) -> None:
        """Serve the pair that there is. Files may come later; raises CertificateError where none can be made."""
        if self._files:
            self._follow(self._files)
        else:
            self._renew()
        if self.serving.not_after is not None:
            self._metrics.certificate_expiry.set(self.serving.not_after.timestamp())

    def refresh(self) -> None:
        """Look again, and serve what is new. What cannot be served is logged, and the pair before it goes on."""
        try:
            self.start()
        except CertificateError as error:
            self._log.error("certificate not renewed", reason=str(error))

    def unready(self) -> list[str]:
        """Why clients cannot connect, if they cannot."""
        reason = self.serving.unready_reason(datetime.now(UTC))
        return [reason] if reason else []

    def _follow(self, files: FilePair) -> None:
        outcome = self.serving.follow(files)
        if isinstance(outcome, Failed):
            self._log.warning("certificate refused", reason=outcome.reason)
        elif isinstance(outcome, Changed):
            self._log.info(
                "certificate served", fingerprint=self.serving.fingerprint, expires=str(self.serving.not_after)
            )

    def _renew(self) -> None:
        store = DirectoryStore(Path(self._settings.directory))
        ensured = ensure(store, self._settings.names, datetime.now(UTC))
        self.ca_bundle = ensured.bundle.pem
        for reason in ensured.reasons:
            self._log.info("certificate", reason=reason)
        if ensured.leaf.fingerprint != self.serving.fingerprint:
            self.serving.swap(ensured.leaf.cert_pem, ensured.leaf.key_pem)
            self._log.info(
                "certificate served", fingerprint=self.serving.fingerprint, expires=str(self.serving.not_after)
            )
