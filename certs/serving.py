"""The live TLS context of a server, and the files with the certificate and the CAs that it serves."""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from certs.errors import CertificateError, StoreError
from certs.material import Bundle, Leaf, load_pair, moment
from certs.plan import read_file


@contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """The path of an anonymous file in memory, which exists as long as the context (Linux only)."""
    descriptor = os.memfd_create("pair", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


class FollowedFiles:
    """Files that are watched by their content.

    Events and modification times are not reliable for a mounted Secret, because the kubelet swaps a symbolic link above
    the files. Certificate and key are read one after the other, so one may be old and the other new. Such a pair is
    refused, and the next look finds both new.
    """

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self._seen: list[bytes] = []

    @contextmanager
    def changes(self) -> Iterator[tuple[bytes, ...]]:
        """A block that takes changed contents over, or none. They count as seen if it raises nothing.

        Raises StoreError, and CertificateError for what the block raises, with the names of the files.
        """
        try:
            contents = tuple(map(read_file, self.paths))
        except FileNotFoundError as error:
            raise StoreError(f"{error.filename} does not exist") from error
        digests = [hashlib.sha256(content).digest() for content in contents]
        try:
            yield contents if digests != self._seen else ()
        except CertificateError as error:
            raise CertificateError(f"{' and '.join(map(str, self.paths))}: {error}") from error
        self._seen = digests


_ALPN: Final = ("http/1.1",)  # aiohttp speaks nothing else; the API server's client falls back to it from h2.


class ServingContext:
    """Owns the `ssl.SSLContext` that a server listens with; the pair that it serves can be swapped at any time.

    The live context never holds a pair itself. It delegates each handshake to a context that was made and tested for
    one pair. A swap replaces the reference to that context. So a pair that does not load changes nothing, although a
    failed `load_cert_chain` breaks the context it was called on. And nothing of an old pair stays behind, although
    OpenSSL keeps one pair for each kind of key: after an EC pair, loading an RSA pair into the same context would still
    serve the EC one. Open connections keep the pair of their handshake.

    Clients may be asked for certificates, too. OpenSSL reads whether to ask and how to verify from the listening
    context, but the CAs from the context that the handshake was delegated to; so both are configured.

    leaf: that new connections are served; None before the first one. failure: why the last attempt to swap failed; None
    if it succeeded. Not thread-safe: swap on the thread that runs the server's event loop.
    """

    def __init__(self) -> None:
        self.leaf: Leaf | None = None
        self._handshakes: ssl.SSLContext | None = None
        self.failure: str | None = None
        self._clients: Bundle | None = None
        self.context: Final = _server_context()
        # Called for every handshake, whether or not the client names a server: clients that dial an IP do not.
        self.context.sni_callback = self._hand_over

    def swap(self, cert_pem: bytes, key_pem: bytes) -> Leaf:
        """Serve this pair from the next handshake on, and return its leaf.

        Raises PemError, PairError and KeyMismatchError as `load_pair` does, and CertificateError if OpenSSL refuses the
        pair. The previous pair, if any, is still served then.
        """
        try:
            leaf = load_pair(cert_pem, key_pem)
            self._handshakes = _loaded(leaf, self._clients)
        except CertificateError as error:
            self.failure = str(error)
            raise
        self.leaf, self.failure = leaf, None
        return leaf

    def follow(self, files: FollowedFiles) -> Leaf | None:
        """Read certificate and key once, and serve a new pair: its leaf; None if they have not changed.

        Raises CertificateError for a pair that is refused; it is tried again at the next call.
        """
        try:
            with files.changes() as contents:
                return self.swap(*contents) if contents else None
        except CertificateError as error:
            self.failure = str(error)
            raise

    def require_clients(self, authorities: Bundle) -> None:
        """From the next handshake on, reject clients without a certificate that one of these CAs signed for clients.

        Two CAs with the same name are distinguished by the key identifiers in the clients' certificates, which all
        common tools write. The first call must be made before the server listens: a handshake that has begun asks for
        no certificate.

        Raises CertificateError if OpenSSL refuses the bundle; the previous CAs stay in force then.
        """
        context = _server_context(authorities) if self.leaf is None else _loaded(self.leaf, authorities)
        if self.leaf is not None:
            self._handshakes = context
        self._clients = authorities
        self.context.verify_mode, self.context.verify_flags = context.verify_mode, context.verify_flags

    def follow_clients(self, file: FollowedFiles) -> Bundle | None:
        """Read the file once, and require a new bundle, which is returned; None if it has not changed.

        Raises CertificateError for a bundle that is refused; it is tried again at the next call.
        """
        with file.changes() as contents:
            if not contents:
                return None
            bundle = Bundle.from_pem(*contents)
            self.require_clients(bundle)
            return bundle

    def unready_reason(self, now: datetime) -> str | None:
        """Why clients cannot connect at `now`; None if they can. A failed swap is not such a reason."""
        if self.leaf is None:
            because = f": {self.failure}" if self.failure else ""
            return f"no certificate is served yet{because}"
        if now > self.leaf.not_after:
            return f"the served certificate expired on {moment(self.leaf.not_after)}"
        if now < self.leaf.not_before:
            return f"the served certificate is not valid before {moment(self.leaf.not_before)}"
        return None

    def _hand_over(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> int | None:
        if self._handshakes is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        # TLS 1.2 can resume a session by its id alone, and Python cannot switch that off. The client's certificate
        # would not be verified again, although the required CA may have changed.
        if self._clients is not None and connection.session_reused:
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        connection.context = self._handshakes
        return None


def _server_context(clients: Bundle | None = None) -> ssl.SSLContext:
    """A context without a pair. Handshakes read settings from both contexts, so both are made here.

    clients: the CAs that must have signed clients' certificates; None if clients need none. Raises CertificateError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_ALPN)
    # No resumption: it skips the certificate, so that a client might never see a new one. The API server keeps its
    # connections open and resumes none; tickets would only cost it two messages per handshake.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        # As in Go: every CA in the bundle is trusted, even an intermediate CA without its root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=clients.pem.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:  # ValueError if it is empty
            raise CertificateError(f"OpenSSL refuses the CAs of clients: {error}") from error
    return context


def _loaded(leaf: Leaf, clients: Bundle | None) -> ssl.SSLContext:
    context = _server_context(clients)
    # One file for both, written from the checked pair and not read again from its source: no race, no password prompt.
    with in_memory(leaf.cert_pem + leaf.key_pem) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise CertificateError(f"OpenSSL refuses the pair: {error.reason or error}") from error
    return context
