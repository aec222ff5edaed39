"""The live TLS context of a server, and the pair that it shows."""

import ssl
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from certs.display import moment
from certs.errors import CertificateError, ServingError
from certs.storage.filebundle import ChangedBundle, FileBundle
from certs.storage.filepair import Changed, Failed, FilePair, Unchanged
from certs.storage.memfile import secret_file
from certs.x509.bundle import Bundle
from certs.x509.leaf import Leaf, load_pair

__all__ = ["Changed", "ChangedBundle", "Failed", "FileBundle", "FilePair", "ServingContext", "Unchanged"]

_ALPN: Final = ("http/1.1",)  # aiohttp speaks nothing else; the API server's client falls back to it from h2.


@dataclass(frozen=True, slots=True)
class _Served:
    leaf: Leaf
    context: ssl.SSLContext


class ServingContext:
    """Owns the `ssl.SSLContext` that a server listens with; the pair it shows can be swapped at any time.

    The live context never holds a pair itself. It hands each handshake over to a context that was made for one pair and
    tried out before, and a swap replaces the one reference to that. So a pair that does not load changes nothing (a
    failed `load_cert_chain` breaks the context it was called on), and nothing of an old pair stays behind (OpenSSL
    keeps one pair for each kind of key: after EC, loading RSA into the same context goes on showing the EC one).
    Open connections keep the pair of their handshake.

    Callers may be asked for certificates too. OpenSSL then takes whether to ask, and how to verify, from the context
    that listens, and the CAs from the one that the handshake was handed over to; so both are told.

    Not for several threads: swap on the thread that runs the server's event loop.
    """

    def __init__(self) -> None:
        self._served: _Served | None = None
        self._failure: str | None = None
        self._clients: Bundle | None = None
        self.context: Final = _server_context()
        # Called for every handshake, whether or not the client names a server: clients that dial an IP do not.
        self.context.sni_callback = self._hand_over

    def swap(self, cert_pem: bytes, key_pem: bytes) -> Leaf:
        """Show this pair from the next handshake on.

        Raises PemError, PairError and KeyMismatchError as `load_pair` does; ServingError where OpenSSL refuses the
        pair. The one before it, if any, is still shown then.
        """
        try:
            leaf = load_pair(cert_pem, key_pem)
            served = _Served(leaf, _loaded(leaf, self._clients))
        except CertificateError as error:
            self._failure = str(error)
            raise
        self._served, self._failure = served, None
        return leaf

    def follow(self, pair: FilePair) -> Changed | Unchanged | Failed:
        """Look at the files once and show what is new in them; what is refused is tried again at the next look."""
        outcome = pair.poll()
        if isinstance(outcome, Changed):
            try:
                self.swap(outcome.cert_pem, outcome.key_pem)
            except CertificateError as error:
                pair.forget()
                return Failed(f"{pair.cert_path} and {pair.key_path}: {error}")
        elif isinstance(outcome, Failed):
            self._failure = outcome.reason
        return outcome

    def require_clients(self, authorities: Bundle) -> None:
        """From the next handshake on, turn away callers without a certificate by which one of these CAs knows clients.

        Two CAs of one name are told apart by the key identifiers in callers' certificates, as all common tools write
        them. To be called first before the server listens: a handshake that has begun asks for no certificate.

        Raises ServingError where OpenSSL refuses the bundle; what held before holds then.
        """
        leaf = self.leaf
        context = _server_context(authorities) if leaf is None else _loaded(leaf, authorities)
        if leaf is not None:
            self._served = _Served(leaf, context)
        self._clients = authorities
        self.context.verify_mode, self.context.verify_flags = context.verify_mode, context.verify_flags

    def follow_clients(self, file: FileBundle) -> ChangedBundle | Unchanged | Failed:
        """Look at the file once and require what is new in it; what is refused is tried again at the next look."""
        outcome = file.poll()
        if isinstance(outcome, ChangedBundle):
            try:
                self.require_clients(outcome.bundle)
            except ServingError as error:
                file.forget()
                return Failed(f"{file.path}: {error}")
        return outcome

    @property
    def leaf(self) -> Leaf | None:
        """The pair that new connections are shown; None before the first."""
        return self._served.leaf if self._served else None

    @property
    def not_after(self) -> datetime | None:
        """When the leaf that is shown expires, aware, UTC."""
        return self._served.leaf.not_after if self._served else None

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the leaf that is shown, 64 hexadecimal digits."""
        return self._served.leaf.fingerprint if self._served else None

    @property
    def failure(self) -> str | None:
        """Why the last attempt to swap failed; None after one that did not."""
        return self._failure

    def unready_reason(self, now: datetime) -> str | None:
        """Say why clients cannot connect at `now`, or None when they can. A failed swap is no such reason."""
        if self._served is None:
            because = f": {self._failure}" if self._failure else ""
            return f"no certificate is served yet{because}"
        leaf = self._served.leaf
        if now > leaf.not_after:
            return f"the served certificate expired on {moment(leaf.not_after)}"
        if now < leaf.not_before:
            return f"the served certificate is not valid before {moment(leaf.not_before)}"
        return None

    def _hand_over(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> int | None:
        if self._served is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        # TLS 1.2 resumes by the mere number of a session, which Python cannot switch off: nobody would look at the
        # caller's certificate again, and its CA may be another one by now.
        if self._clients is not None and connection.session_reused:
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        connection.context = self._served.context
        return None


def _server_context(clients: Bundle | None = None) -> ssl.SSLContext:
    """Make a context without a pair. Handshakes take settings from both contexts, so both are made here.

    clients: the CAs that callers need a certificate of, None where they need none. Raises ServingError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_ALPN)
    # No resumption: it would skip the certificate, and a client could go on without ever seeing the new one. The API
    # server keeps its connections open and resumes none, so tickets would only cost it two messages each time.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        # As Go has it: what is in the bundle is trusted as it stands, an intermediate CA without its root too.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=clients.pem.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:  # the latter where it is empty
            raise ServingError(f"OpenSSL refuses the CAs of clients: {error}") from error
    return context


def _loaded(leaf: Leaf, clients: Bundle | None) -> ssl.SSLContext:
    context = _server_context(clients)
    # One file for both, written from what was checked and not read again from where it came: no race, no password.
    with secret_file(leaf.cert_pem + leaf.key_pem) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ServingError(f"OpenSSL refuses the pair: {error.reason or error}") from error
    return context
