"""The live TLS context of a server, and the pair that it shows."""

import ssl
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from certs.errors import CertificateError, ServingError
from certs.filepair import Changed, Failed, FilePair, Unchanged
from certs.leaf import Leaf, load_pair
from certs.memfile import secret_file
from certs.wording import moment

__all__ = ["Changed", "Failed", "FilePair", "ServingContext", "Unchanged"]

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

    Not for several threads: swap on the thread that runs the server's event loop.
    """

    def __init__(self) -> None:
        self._served: _Served | None = None
        self._failure: str | None = None
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
            served = _Served(leaf, _loaded(leaf))
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
        connection.context = self._served.context
        return None


def _server_context() -> ssl.SSLContext:
    """Make a context without a pair. Handshakes take settings from both contexts, so both are made here."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_ALPN)
    # No resumption: it would skip the certificate, and a client could go on without ever seeing the new one. The API
    # server keeps its connections open and resumes none, so tickets would only cost it two messages each time.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


def _loaded(leaf: Leaf) -> ssl.SSLContext:
    context = _server_context()
    # One file for both, written from what was checked and not read again from where it came: no race, no password.
    with secret_file(leaf.cert_pem + leaf.key_pem) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            message = f"OpenSSL refuses the pair: {error.reason or error}"
            raise ServingError(message) from error
    return context
