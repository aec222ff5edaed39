"""The live TLS context, as clients see it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from support.certificates import forge, pem
from support.patience import PATIENCE

from certs.errors import CertificateError, KeyMismatchError
from certs.material import Authority, Bundle, Leaf, fingerprint, moment, new_authority, new_key
from certs.serving import FollowedFiles, ServingContext, in_memory

_VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
# Clients of the ssl module know no other time than that of the host.
_TODAY = datetime.now(UTC)
_LIFE: dict[str, Any] = {"start": _TODAY - timedelta(hours=1), "end": _TODAY + timedelta(days=1)}


def _trust(authority: Authority) -> Bundle:
    return Bundle((authority.certificate,))


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection to the echoing server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def tls(self) -> ssl.SSLObject:
        """What the handshake agreed on."""
        found: ssl.SSLObject = self.writer.get_extra_info("ssl_object")
        return found

    @property
    def fingerprint(self) -> str:
        """The certificate that the server showed."""
        der = self.tls.getpeercert(binary_form=True)
        assert der is not None
        return fingerprint(x509.load_der_x509_certificate(der))

    async def echo(self, line: bytes) -> bytes:
        """Send a line and read what comes back."""
        self.writer.write(line)
        return await self.reader.readline()


@dataclass(frozen=True, slots=True)
class Server:
    """A server on a free port with a serving context, and the connections made to it."""

    serving: ServingContext
    authority: Authority
    port: int
    opened: list[asyncio.StreamWriter]

    def serve(self, *names: str) -> Leaf:
        """Swap to a new pair."""
        leaf = self.authority.issue(names or ["localhost"], _TODAY)
        self.serving.swap(leaf.cert_pem, leaf.key_pem)
        return leaf

    async def connect(
        self, bundle: Bundle | None = None, name: str = "localhost", pair: Leaf | None = None, **settings: Any
    ) -> Connection:
        """Connect as a client that trusts the bundle, or anybody without one, and shows a pair if it has one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if bundle is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            # What Python 3.13 made its default: identifiers, critical constraints and key usage as RFC 5280 has them.
            context.verify_flags |= ssl.VERIFY_X509_STRICT
            context.load_verify_locations(cadata=bundle.pem.decode())
        context.set_alpn_protocols(["h2", "http/1.1"])
        for setting, value in settings.items():
            setattr(context, setting, value)
        if pair is not None:
            with in_memory(pair.cert_pem + pair.key_pem) as path:
                context.load_cert_chain(path)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=name)
        self.opened.append(writer)
        return Connection(reader, writer)

    async def answers(self, pair: Leaf | None, version: ssl.TLSVersion) -> bool:
        """Whether a line comes back to a caller. Under TLS 1.3 it learns that it was refused when it reads."""
        try:
            connection = await self.connect(
                _trust(self.authority), pair=pair, minimum_version=version, maximum_version=version
            )
            return await connection.echo(b"hello\n") == b"hello\n"
        except (ssl.SSLError, ConnectionError):
            return False


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that sends each line back, with no pair yet. It ends once the callers have closed their connections."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    serving = ServingContext()
    opened: list[asyncio.StreamWriter] = []
    listening = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=serving.context)
    yield Server(serving, new_authority(_TODAY), listening.sockets[0].getsockname()[1], opened)
    for writer in opened:
        writer.close()
        with suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()
    closed = asyncio.create_task(listening.wait_closed())
    await asyncio.sleep(0)  # it begins before close(): after that Python 3.11 waits for no connection
    listening.close()
    await asyncio.wait_for(closed, PATIENCE)


async def test_a_client_that_trusts_the_bundle_connects(server: Server) -> None:
    """By name, by address and by wildcard: a strict client verifies what we serve, and speaks HTTP/1.1 over TLS 1.3."""
    leaf = server.serve("localhost", "127.0.0.1", "*.example.com")

    for name in ("localhost", "127.0.0.1", "a.example.com"):
        connection = await server.connect(_trust(server.authority), name)

        agreed = (connection.fingerprint, connection.tls.version(), connection.tls.selected_alpn_protocol())
        assert agreed == (leaf.fingerprint, "TLSv1.3", "http/1.1")
        assert await connection.echo(b"hello\n") == b"hello\n"
    old = await server.connect(_trust(server.authority), maximum_version=ssl.TLSVersion.TLSv1_2)
    assert (old.tls.version(), server.serving.context.minimum_version) == ("TLSv1.2", ssl.TLSVersion.TLSv1_2)


async def test_clients_that_refuse(server: Server) -> None:
    """Clients refuse a name that is not on the leaf, a CA of the same name, and a common name alone, as Go does."""
    server.serve("localhost", "127.0.0.1")
    for name in ("other.example", "127.0.0.2"):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch, certificate is not valid for"):
            await server.connect(_trust(server.authority), name)
    with pytest.raises(ssl.SSLCertVerificationError):
        await server.connect(_trust(new_authority(_TODAY)))

    ca = forge("CA", names=[], extensions=[x509.BasicConstraints(ca=True, path_length=None)], **_LIFE)
    certificate, key = forge("localhost", names=[], issuer=ca, **_LIFE)
    server.serving.swap(pem(certificate), pem(key))
    lenient: dict[str, Any] = {"verify_flags": ssl.VerifyFlags.VERIFY_DEFAULT, "hostname_checks_common_name": False}
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'localhost'"):
        await server.connect(Bundle((ca[0],)), **lenient)


async def test_an_open_connection_survives_a_swap(server: Server) -> None:
    """A connection from before the swap goes on; one from after it sees the new leaf."""
    old = server.serve()
    before = await server.connect(_trust(server.authority))
    new = server.serve()
    after = await server.connect(_trust(server.authority))

    assert (before.fingerprint, after.fingerprint) == (old.fingerprint, new.fingerprint)
    assert [await before.echo(b"1\n"), await after.echo(b"2\n"), await before.echo(b"3\n")] == [b"1\n", b"2\n", b"3\n"]


async def test_a_pair_that_is_refused_changes_nothing(server: Server, weak_key: rsa.RSAPrivateKey) -> None:
    """After it new connections are shown the old leaf; a key too weak for OpenSSL is refused with its own word."""
    old, new = server.serve(), server.authority.issue(["localhost"], _TODAY)
    server.serving.swap(old.cert_pem, old.key_pem)
    weak = forge(key=weak_key)
    for pair, error, words in (
        ((new.cert_pem, old.key_pem), KeyMismatchError, "the key does not match"),
        (tuple(map(pem, weak)), CertificateError, "OpenSSL refuses the pair: EE_KEY_TOO_SMALL"),
    ):
        with pytest.raises(error, match=words) as raised:
            server.serving.swap(*pair)
        assert (await server.connect()).fingerprint == old.fingerprint
        assert server.serving.leaf == old
        assert (server.serving.failure, server.serving.unready_reason(_TODAY)) == (str(raised.value), None)


async def test_nothing_of_an_old_kind_of_key_stays(server: Server) -> None:
    """From EC to RSA to Ed25519 and back each new leaf is shown; one live context would go on showing the EC one."""
    keys = [
        ec.generate_private_key(ec.SECP256R1()),
        rsa.generate_private_key(65537, 2048),
        ed25519.Ed25519PrivateKey.generate(),
        ec.generate_private_key(ec.SECP384R1()),
        rsa.generate_private_key(65537, 2048),
    ]
    for key in keys:
        certificate, _ = forge(key=key)
        server.serving.swap(pem(certificate), pem(key))

        shown = [(await server.connect(maximum_version=v)).fingerprint for v in _VERSIONS]

        assert shown == [fingerprint(certificate)] * 2


async def test_connections_are_not_resumed(server: Server) -> None:
    """No client is given a ticket by which it could come back without being shown the current certificate."""
    server.serve()

    for version in _VERSIONS:
        connection = await server.connect(maximum_version=version)
        await connection.echo(b"hello\n")  # Tickets of TLS 1.3 come after the handshake, with the first data.

        session = connection.tls.session
        assert session is None or not session.has_ticket


async def test_without_a_pair_clients_are_turned_away(server: Server) -> None:
    """Before the first pair no handshake succeeds, the reason is told, and the first pair ends that."""
    serving, leaf = server.serving, server.authority.issue(["localhost"], _TODAY)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await server.connect()
    assert (serving.leaf, serving.unready_reason(_TODAY)) == (None, "no certificate is served yet")
    with pytest.raises(KeyMismatchError) as raised:
        serving.swap(leaf.cert_pem, pem(new_key()))
    assert serving.unready_reason(_TODAY) == f"no certificate is served yet: {raised.value}"

    leaf = server.serve()

    assert (await server.connect()).fingerprint == leaf.fingerprint
    assert (serving.leaf, serving.failure, serving.unready_reason(_TODAY)) == (leaf, None, None)


def test_a_leaf_out_of_its_time_is_not_ready(leaf: Leaf) -> None:
    """Clients refuse a leaf that is over or not there yet, so neither is ready."""
    serving = ServingContext()
    serving.swap(leaf.cert_pem, leaf.key_pem)
    second = timedelta(seconds=1)

    moments = (leaf.not_before - second, leaf.not_before, leaf.not_after, leaf.not_after + second)

    assert [serving.unready_reason(when) for when in moments] == [
        f"the served certificate is not valid before {moment(leaf.not_before)}",
        None,
        None,
        f"the served certificate expired on {moment(leaf.not_after)}",
    ]


class Followed:
    """A certificate and a key in two files, and a context that follows them."""

    def __init__(self, directory: Path) -> None:
        self.cert, self.key = directory / "tls.crt", directory / "tls.key"
        self.files, self.serving = FollowedFiles(self.cert, self.key), ServingContext()

    def step(self, cert_pem: bytes | None = None, key_pem: bytes | None = None) -> Leaf | str | None:
        """Write files, if there is something to write, and look once: the new leaf, None, or the problem."""
        for path, content in ((self.cert, cert_pem), (self.key, key_pem)):
            if content is not None:
                path.write_bytes(content)
                os.utime(path, (0, 0))  # neither size nor time tells anything
        try:
            return self.serving.follow(self.files)
        except CertificateError as error:
            return str(error)


def test_files_are_followed(tmp_path: Path, weak_key: rsa.RSAPrivateKey) -> None:
    """Each look tells new content from the same; a pair that is refused is refused again, and the old one is kept."""
    authority = new_authority(_TODAY)
    old, new = (authority.issue(["localhost"], _TODAY) for _ in range(2))
    weak, weak_key = forge(key=weak_key)
    followed = Followed(tmp_path)
    both = f"{followed.cert} and {followed.key}: "

    missing = [followed.step(), followed.serving.failure, followed.step(old.cert_pem)]
    served = [followed.step(key_pem=old.key_pem), followed.step(old.cert_pem, old.key_pem)]
    refused = [followed.step(pem(weak), pem(weak_key)), followed.step()]
    kept = followed.serving.leaf
    half = [followed.step(new.cert_pem, old.key_pem), followed.step()]

    assert missing == [f"{followed.cert} does not exist"] * 2 + [f"{followed.key} does not exist"]
    assert served == [old, None]
    assert (refused, kept) == ([f"{both}OpenSSL refuses the pair: EE_KEY_TOO_SMALL"] * 2, old)
    assert half[0] == half[1]
    assert str(half[0]).startswith(f"{both}the key does not match the certificate CN=localhost: SHA-256 of")
    assert [followed.step(key_pem=new.key_pem), followed.step()] == [new, None]
    followed.key.unlink()
    followed.key.mkdir()
    assert str(followed.step()).endswith("Is a directory; a directory stands where a file belongs: move it away")


def test_a_mounted_secret_is_followed(tmp_path: Path, leaf: Leaf, authority: Authority, now: datetime) -> None:
    """The way in which kubelet replaces files, a symbolic link turned to another directory, is a change."""
    newer = authority.issue(leaf.names, now)
    for name, version in (("..1", leaf), ("..2", newer)):
        (tmp_path / name).mkdir()
        Followed(tmp_path / name).step(version.cert_pem, version.key_pem)
    (tmp_path / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    followed = Followed(tmp_path)
    first = followed.step()
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    assert [first, followed.step()] == [leaf, newer]


def test_keys_are_gone_once_they_are_loaded(leaf: Leaf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair is served from a read-only file system without /tmp, and no descriptor of it is left afterwards."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    descriptors = set(Path("/proc/self/fd").iterdir())

    ServingContext().swap(leaf.cert_pem, leaf.key_pem)

    # Fewer where garbage of earlier tests was collected meanwhile.
    assert set(Path("/proc/self/fd").iterdir()) <= descriptors


def _caller(
    authority: Authority, purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH, **life: datetime
) -> Leaf:
    """A pair for one caller."""
    own = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    # By it OpenSSL tells two CAs of one name apart; all common tools write it.
    signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
    use, issuer = [x509.ExtendedKeyUsage([purpose]), signer], (authority.certificate, authority.key)
    certificate, key = forge("kube-apiserver", names=(), issuer=issuer, extensions=use, **_LIFE | life)
    return Leaf((certificate,), key)


@pytest.fixture(scope="module")
def callers() -> list[Authority]:
    """Two CAs of callers, with one name."""
    return [new_authority(_TODAY) for _ in range(2)]


@pytest.mark.parametrize("version", _VERSIONS)
async def test_only_callers_of_the_authorities_are_answered(
    version: ssl.TLSVersion, server: Server, callers: list[Authority]
) -> None:
    """Under both versions of TLS, before and after a swap of the pair: with a certificate for clients, and in time."""
    ours, theirs = callers
    cases: dict[str, Leaf | None] = {
        "ours": _caller(ours),
        "none": None,
        "of a CA with the same name": _caller(theirs),
        "for servers": _caller(ours, ExtendedKeyUsageOID.SERVER_AUTH),
        "expired": _caller(ours, end=_TODAY - timedelta(minutes=1)),
    }

    async def answered() -> list[str]:
        return [case for case, pair in cases.items() if await server.answers(pair, version)]

    server.serve()
    before = await answered()
    server.serving.require_clients(_trust(ours))
    required = await answered()
    server.serve()
    assert (before, required, await answered()) == ([*cases], ["ours"], ["ours"])


@pytest.mark.parametrize("version", _VERSIONS)
async def test_authorities_are_swapped_while_it_serves(
    version: ssl.TLSVersion, server: Server, callers: list[Authority]
) -> None:
    """From one bundle to the overlap of two to the other: each caller is answered as long as its CA is in there."""
    server.serve()
    pairs, (first, second) = [_caller(each) for each in callers], map(_trust, callers)
    answers = []
    for bundle in (first, Bundle((*first, *second)), second):
        server.serving.require_clients(bundle)
        answers.append([await server.answers(pair, version) for pair in pairs])

    assert answers == [[True, False], [True, True], [False, True]]


async def test_an_old_session_is_no_way_around(server: Server, callers: list[Authority]) -> None:
    """A TLS 1.2 session from before is not resumed: the caller's CA may not be trusted any more."""
    server.serve()
    server.serving.require_clients(_trust(callers[0]))
    context, pair = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), _caller(callers[0])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=_trust(server.authority).pem.decode())
    with in_memory(pair.cert_pem + pair.key_pem) as path:
        context.load_cert_chain(path)

    def connect(session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        connection = socket.create_connection(("127.0.0.1", server.port))
        with context.wrap_socket(connection, server_hostname="localhost", session=session) as tls:
            tls.sendall(b"hello\n")
            assert tls.recv(16) == b"hello\n"
            return tls.session

    session = await asyncio.to_thread(connect, None)
    server.serving.require_clients(_trust(callers[1]))

    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(connect, session)


async def test_an_intermediate_authority_is_enough(server: Server, callers: list[Authority]) -> None:
    """As with Go, a CA in the bundle is trusted as it stands, without the root above it."""
    root = (callers[0].certificate, callers[0].key)
    key = new_key()
    signs = [x509.BasicConstraints(ca=True, path_length=0), x509.SubjectKeyIdentifier.from_public_key(key.public_key())]
    certificate, _ = forge("front-proxy CA", key=key, names=(), issuer=root, extensions=signs, **_LIFE)
    authority = Authority((certificate,), key)
    server.serve()
    server.serving.require_clients(_trust(authority))

    assert await server.answers(_caller(authority), ssl.TLSVersion.TLSv1_3)


def test_a_file_is_followed(tmp_path: Path, callers: list[Authority]) -> None:
    """Each look tells new content from the same; what cannot be used is said each time, and changes nothing."""
    first, second = map(_trust, callers)
    path, serving = tmp_path / "ca.crt", ServingContext()
    file = FollowedFiles(path)

    def step(content: bytes | None) -> Bundle | str | None:
        path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
        try:
            return serving.follow_clients(file)
        except CertificateError as error:
            return str(error)

    missing, empty = f"{path} does not exist", f"{path}: it is empty"
    assert [step(content) for content in (None, first.pem, first.pem, b"", b"", None, first.pem, second.pem)] == [
        missing, first, None, empty, empty, missing, None, second,
    ]  # fmt: skip
    assert serving.context.verify_mode == ssl.CERT_REQUIRED
