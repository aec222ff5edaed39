"""Callers that need a certificate, over real connections on the loopback interface."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import Authority, Leaf, new_authority
from certs.errors import ServingError
from certs.material import Bundle, new_key
from certs.serving import ChangedBundle, Failed, FileBundle, ServingContext, Unchanged

from .echoing import echoing

Forge = Callable[..., tuple[x509.Certificate, Any]]
# Clients of the ssl module know no other time than that of the host.
_TODAY = datetime.now(UTC)
_ANSWERED, _REFUSED = "answered", "refused"
_VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@dataclass(frozen=True, slots=True)
class Callers:
    """A CA of callers, and how to make a pair of it."""

    authority: Authority
    forge: Forge

    def issue(self, purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH, **life: datetime) -> Leaf:
        """A pair for one caller."""
        issuer = (self.authority.certificate, self.authority.key)
        life = {"start": _TODAY - timedelta(hours=1), "end": _TODAY + timedelta(days=1)} | life
        own = self.authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        # By it OpenSSL tells two CAs of one name apart; all common tools write it.
        signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
        use = [x509.ExtendedKeyUsage([purpose]), signer]
        certificate, key = self.forge("kube-apiserver", names=(), issuer=issuer, extensions=use, **life)
        return Leaf((certificate,), key)

    @property
    def bundle(self) -> Bundle:
        """The CA alone."""
        return Bundle((self.authority.certificate,))


@pytest.fixture(scope="module")
def callers(forge: Forge) -> list[Callers]:
    """Two CAs of callers, with one name."""
    return [Callers(new_authority(_TODAY), forge) for _ in range(2)]


@dataclass(frozen=True, slots=True)
class Server:
    """A server on a free port, the context that it listens with, and the CA of its own pair."""

    serving: ServingContext
    authority: Authority
    port: int

    def show(self) -> None:
        """Swap to a new pair."""
        leaf = self.authority.issue(["localhost"], _TODAY)
        self.serving.swap(leaf.cert_pem, leaf.key_pem)

    def caller(self, pair: Leaf | None, version: ssl.TLSVersion, directory: Path) -> ssl.SSLContext:
        """The context of a client with a pair, or without."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = context.maximum_version = version
        context.load_verify_locations(cadata=self.authority.cert_pem.decode())
        if pair is not None:
            path = directory / "caller.pem"
            path.write_bytes(pair.cert_pem + pair.key_pem)
            context.load_cert_chain(path)
        return context

    async def call(self, context: ssl.SSLContext) -> str:
        """Send a line: whether it came back."""
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
            )
        except (ssl.SSLError, ConnectionError):
            return _REFUSED
        try:
            writer.write(b"hello\n")
            # Under TLS 1.3 a client learns that it was refused when it reads.
            return _ANSWERED if await reader.readline() == b"hello\n" else _REFUSED
        except (ssl.SSLError, ConnectionError):
            return _REFUSED
        finally:
            writer.transport.abort()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that sends each line back, with a pair."""
    serving = ServingContext()
    async with echoing(serving) as port:
        running = Server(serving, new_authority(_TODAY), port)
        running.show()
        yield running


@pytest.mark.parametrize("version", _VERSIONS)
async def test_only_callers_of_the_authorities_are_answered(
    version: ssl.TLSVersion, server: Server, callers: list[Callers], tmp_path: Path
) -> None:
    """Under both versions of TLS, before and after a swap of the pair: with a certificate for clients, and in time."""
    ours, theirs = callers
    cases: dict[str, Leaf | None] = {
        "ours": ours.issue(),
        "none": None,
        "of a CA with the same name": theirs.issue(),
        "for servers": ours.issue(ExtendedKeyUsageOID.SERVER_AUTH),
        "expired": ours.issue(end=_TODAY - timedelta(minutes=1)),
    }

    async def answers() -> dict[str, str]:
        return {case: await server.call(server.caller(pair, version, tmp_path)) for case, pair in cases.items()}

    before = await answers()
    server.serving.require_clients(ours.bundle)
    required = await answers()
    server.show()
    swapped = await answers()

    assert before == dict.fromkeys(cases, _ANSWERED)
    assert required == swapped == dict.fromkeys(cases, _REFUSED) | {"ours": _ANSWERED}


@pytest.mark.parametrize("version", _VERSIONS)
async def test_authorities_are_swapped_while_it_serves(
    version: ssl.TLSVersion, server: Server, callers: list[Callers], tmp_path: Path
) -> None:
    """From one bundle to the overlap of two to the other: each caller is answered as long as its CA is in there."""
    contexts = [server.caller(each.issue(), version, tmp_path) for each in callers]
    first, second = (each.bundle for each in callers)
    answers = []
    for bundle in (first, Bundle((*first, *second)), second):
        server.serving.require_clients(bundle)
        answers.append([await server.call(context) for context in contexts])

    assert answers == [[_ANSWERED, _REFUSED], [_ANSWERED, _ANSWERED], [_REFUSED, _ANSWERED]]


async def test_an_old_session_is_no_way_around(server: Server, callers: list[Callers], tmp_path: Path) -> None:
    """A TLS 1.2 session from before is not resumed: the caller's CA may not be trusted any more."""
    server.serving.require_clients(callers[0].bundle)
    context = server.caller(callers[0].issue(), ssl.TLSVersion.TLSv1_2, tmp_path)

    def connect(session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        connection = socket.create_connection(("127.0.0.1", server.port))
        with context.wrap_socket(connection, server_hostname="localhost", session=session) as tls:
            tls.sendall(b"hello\n")
            assert tls.recv(16) == b"hello\n"
            return tls.session

    session = await asyncio.to_thread(connect, None)
    server.serving.require_clients(callers[1].bundle)

    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(connect, session)


async def test_an_intermediate_authority_is_enough(
    server: Server, callers: list[Callers], forge: Forge, tmp_path: Path
) -> None:
    """As with Go, a CA in the bundle is trusted as it stands, without the root above it."""
    root = (callers[0].authority.certificate, callers[0].authority.key)
    life = {"start": _TODAY - timedelta(hours=1), "end": _TODAY + timedelta(days=1)}
    key = new_key()
    signs = [x509.BasicConstraints(ca=True, path_length=0), x509.SubjectKeyIdentifier.from_public_key(key.public_key())]
    certificate, _ = forge("front-proxy CA", key=key, names=(), issuer=root, extensions=signs, **life)
    caller = replace(callers[0], authority=Authority(certificate, key))

    server.serving.require_clients(caller.bundle)

    assert await server.call(server.caller(caller.issue(), ssl.TLSVersion.TLSv1_3, tmp_path)) == _ANSWERED


async def test_a_bundle_that_is_refused_changes_nothing(server: Server, callers: list[Callers], tmp_path: Path) -> None:
    """An empty bundle would shut everybody out: it is an error, and the one before it goes on."""
    server.serving.require_clients(callers[0].bundle)

    with pytest.raises(ServingError, match="OpenSSL refuses the CAs of clients: Empty certificate data"):
        server.serving.require_clients(Bundle())

    assert await server.call(server.caller(callers[0].issue(), ssl.TLSVersion.TLSv1_3, tmp_path)) == _ANSWERED


def test_a_file_is_followed(tmp_path: Path, callers: list[Callers]) -> None:
    """Each look tells new content from the same; what cannot be used is said each time, and changes nothing."""
    first, second = (each.bundle for each in callers)
    file = FileBundle(tmp_path / "ca.crt")
    serving = ServingContext()

    def step(content: bytes | None) -> Any:
        file.path.unlink(missing_ok=True) if content is None else file.path.write_bytes(content)
        return serving.follow_clients(file)

    missing, empty = Failed(f"{file.path} does not exist"), Failed(f"{file.path}: it is empty")
    assert [step(content) for content in (None, first.pem, first.pem, b"", b"", None, first.pem, second.pem)] == [
        missing,
        ChangedBundle(first),
        Unchanged(),
        empty,
        empty,
        missing,
        Unchanged(),
        ChangedBundle(second),
    ]
    assert serving.context.verify_mode == ssl.CERT_REQUIRED
