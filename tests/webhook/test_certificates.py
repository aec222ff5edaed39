"""The certificate that is served: followed in somebody else's files, or made and renewed by the service."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from certs.authority import LEAF_LIFETIME, Authority, Leaf, new_authority
from certs.errors import StoreError
from certs.material import moment
from webhook.certificates import Certificates
from webhook.configuration.settings import SettingsError, Tls
from webhook.metrics import Metrics

_NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Somebody's CA."""
    return new_authority(_NOW)


@pytest.fixture(scope="module")
def pairs(authority: Authority) -> list[Leaf]:
    """Three pairs of it."""
    return [authority.issue(["localhost"], _NOW) for _ in range(3)]


def _tls(**files: Path) -> Tls:
    return Tls.model_validate({key: str(path) for key, path in files.items()})


class _Followed:
    """Certificates in two files."""

    def __init__(self, directory: Path) -> None:
        self.cert, self.key = directory / "tls.crt", directory / "tls.key"
        self.metrics = Metrics()
        self.certificates = Certificates(_tls(certFile=self.cert, keyFile=self.key), self.metrics)

    def write(self, cert: Leaf, key: Leaf) -> None:
        """Put the halves of two pairs there."""
        self.cert.write_bytes(cert.cert_pem)
        self.key.write_bytes(key.key_pem)

    def look(self) -> None:
        """What the service does every few seconds."""
        self.certificates.look()
        self.certificates.install()

    @property
    def served(self) -> Leaf | None:
        """What is shown."""
        return self.certificates.serving.leaf

    @property
    def expiry(self) -> float | None:
        """The metric."""
        return self.metrics.registry.get_sample_value("cks_admission_certificate_expiry_timestamp_seconds")


@pytest.mark.parametrize("only", ["certFile", "keyFile"])
def test_half_a_pair_is_a_mistake_in_the_settings(only: str) -> None:
    """A certificate without its key, and a key without its certificate, are refused at once."""
    with pytest.raises(SettingsError, match=r"^tls: certFile and keyFile belong together; give both or neither$"):
        Certificates(_tls(**{only: Path("x")}), Metrics())


def test_files_are_served(tmp_path: Path, pairs: list[Leaf]) -> None:
    """The pair in the files is served from the start, its expiry is a metric, and it is no CA bundle of our own."""
    followed = _Followed(tmp_path)
    followed.write(pairs[0], pairs[0])

    followed.certificates.start()

    assert followed.served == pairs[0]
    assert followed.expiry == pairs[0].not_after.timestamp()
    assert followed.certificates.unready() == []
    assert followed.certificates.ca_bundle == b""


def test_a_new_pair_is_served(tmp_path: Path, pairs: list[Leaf]) -> None:
    """When both files have changed, new connections are shown the new pair, and the log says so once."""
    followed = _Followed(tmp_path)
    followed.write(pairs[0], pairs[0])
    followed.certificates.start()

    followed.write(pairs[1], pairs[1])
    with capture_logs() as logged:
        followed.look()
        followed.look()

    assert followed.served == pairs[1]
    assert followed.expiry == pairs[1].not_after.timestamp()
    assert logged == [
        {
            "event": "certificate served",
            "log_level": "info",
            "fingerprint": pairs[1].fingerprint,
            "expires": str(pairs[1].not_after),
        }
    ]


def test_a_pair_that_does_not_match_is_kept_out(tmp_path: Path, pairs: list[Leaf]) -> None:
    """While the halves do not belong together the old pair goes on, ready as before, and the log says so once."""
    followed = _Followed(tmp_path)
    followed.write(pairs[0], pairs[0])
    followed.certificates.start()

    followed.write(pairs[1], pairs[0])
    with capture_logs() as logged:
        for _ in range(3):
            followed.look()
    kept, ready = followed.served, followed.certificates.unready()
    followed.write(pairs[1], pairs[1])
    followed.look()

    assert (kept, ready) == (pairs[0], [])
    assert [entry["event"] for entry in logged] == ["certificate refused"]
    assert logged[0]["reason"].startswith(f"{tmp_path}/tls.crt and {tmp_path}/tls.key: ")
    assert followed.served == pairs[1]


def _own(directory: Path, *names: str) -> Certificates:
    return Certificates(Tls(directory=str(directory), names=names or ("localhost",)), Metrics())


def test_a_new_pair_of_its_own_is_served_when_it_is_installed(tmp_path: Path) -> None:
    """A look finds what is new without serving it, so that the API server can be told of a new CA first."""
    certificates = _own(tmp_path)
    certificates.start()
    before = certificates.serving.leaf
    for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
        (tmp_path / name).unlink()

    certificates.look()
    looked, bundle = certificates.serving.leaf, certificates.ca_bundle
    certificates.install()

    assert looked == before
    assert bundle == (tmp_path / "ca-bundle.crt").read_bytes()
    assert bundle.count(b"BEGIN CERTIFICATE") == 2
    assert certificates.serving.leaf not in (before, None)


def test_trouble_with_its_own_directory_changes_nothing(tmp_path: Path) -> None:
    """What cannot be renewed is logged, and the pair before it goes on."""
    certificates = _own(tmp_path)
    certificates.start()
    before = certificates.serving.leaf
    (tmp_path / "tls.crt").write_text("somebody else's\n", encoding="utf-8")

    with capture_logs() as logged:
        certificates.look()
        certificates.install()

    assert certificates.serving.leaf == before
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [("certificate not renewed", "error")]
    assert certificates.unready() == []


def test_a_new_authority_waits_until_clients_know_it(tmp_path: Path) -> None:
    """A leaf of a CA that clients have not been told of waits as long as what is served is good."""
    now = _NOW
    told: list[x509.Certificate] = []
    certificates = Certificates(Tls(directory=str(tmp_path), names=("localhost",)), Metrics(), now=lambda: now)
    certificates.start()
    before = certificates.serving.leaf
    for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
        (tmp_path / name).unlink()

    def shown() -> Leaf | None:
        certificates.look()
        certificates.install(told.__contains__)
        return certificates.serving.leaf

    waiting, ready = shown(), certificates.unready()
    told.append(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))
    after = shown()

    assert (waiting, ready) == (before, [])
    assert after not in (before, None)
    assert certificates.unready() == []


def test_what_is_over_is_not_served_on(tmp_path: Path) -> None:
    """Once the old leaf has expired the new one is shown though clients do not know it; readiness says so."""
    now = _NOW
    certificates = Certificates(Tls(directory=str(tmp_path), names=("localhost",)), Metrics(), now=lambda: now)
    certificates.start()
    for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
        (tmp_path / name).unlink()
    now += timedelta(days=8)

    certificates.look()
    expired = certificates.unready()
    certificates.install(lambda _: False)
    unknown = certificates.unready()
    certificates.install()

    assert expired == [f"the served certificate expired on {moment(_NOW + LEAF_LIFETIME)}"]
    assert unknown == ["clients do not know the CA of the served certificate yet"]
    assert certificates.unready() == []


class _Clients:
    """Certificates that ask callers for one of the CAs in a file."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "clients.crt"
        self.certificates = Certificates(_tls(directory=directory / "own", clientCaFile=self.file), Metrics())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "does not exist"),
        (b"", ": it is empty"),
        (b"notes\n", ": it has no PEM block (no line like -----BEGIN CERTIFICATE-----)"),
    ],
    ids=["missing", "empty", "text"],
)
def test_authorities_of_clients_have_to_be_there(content: bytes | None, problem: str, tmp_path: Path) -> None:
    """Without them at start nobody could be let in, or everybody: it is an error that names setting and file."""
    clients = _Clients(tmp_path)
    if content is not None:
        clients.file.write_bytes(content)

    with pytest.raises(StoreError) as raised:
        clients.certificates.start()

    assert str(raised.value) == f"tls.clientCaFile: {clients.file}{' ' if content is None else ''}{problem}"
    assert clients.certificates.serving.leaf is None


def test_authorities_of_clients_are_followed(tmp_path: Path, authority: Authority) -> None:
    """A new file counts at the next look; one that cannot be used is said once, and the one before it goes on."""
    other = new_authority(_NOW, name="Their CA")
    clients = _Clients(tmp_path)
    clients.file.write_bytes(authority.cert_pem)

    with capture_logs() as logged:
        clients.certificates.start()
        clients.file.write_bytes(b"")
        for _ in range(3):
            clients.certificates.look()
        clients.file.write_bytes(authority.cert_pem + other.cert_pem)
        clients.certificates.look()

    about = [entry for entry in logged if not entry["event"].startswith("certificate")]
    assert about == [
        {"event": "client certificates required", "log_level": "info", "authorities": ["CN=cks-admission CA"]},
        {"event": "CAs of clients refused", "log_level": "warning", "reason": f"{clients.file}: it is empty"},
        {
            "event": "client certificates required",
            "log_level": "info",
            "authorities": ["CN=cks-admission CA", "CN=Their CA"],
        },
    ]
    assert clients.certificates.serving.context.verify_mode == ssl.CERT_REQUIRED
    assert clients.certificates.unready() == []
