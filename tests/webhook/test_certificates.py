"""The certificate that is served: followed in somebody else's files, or made and renewed by the service."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from certs.errors import StoreError
from certs.material import LEAF_LIFETIME, Authority, Leaf, moment, new_authority
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
        self.cert.write_bytes(cert.cert_pem)
        self.key.write_bytes(key.key_pem)

    def look(self) -> None:
        self.certificates.look()
        self.certificates.install()

    @property
    def served(self) -> Leaf | None:
        return self.certificates.serving.leaf

    @property
    def expiry(self) -> float | None:
        return self.metrics.registry.get_sample_value("cks_admission_certificate_expiry_timestamp_seconds")


@pytest.mark.parametrize("only", ["certFile", "keyFile"])
def test_half_a_pair_is_a_mistake_in_the_settings(only: str) -> None:
    """A certificate without its key, and a key without its certificate, are refused at once."""
    with pytest.raises(SettingsError, match=r"^tls: certFile and keyFile belong together; give both or neither$"):
        Certificates(_tls(**{only: Path("x")}), Metrics())


def test_files_are_served(tmp_path: Path, pairs: list[Leaf]) -> None:
    """The pair in the files is served from the start, and a new one once both have changed, which the log says once.

    Its expiry is a metric, and it is no CA bundle of our own.
    """
    followed = _Followed(tmp_path)
    followed.write(pairs[0], pairs[0])
    followed.certificates.start()
    assert (followed.served, followed.expiry) == (pairs[0], pairs[0].not_after.timestamp())

    followed.write(pairs[1], pairs[1])
    with capture_logs() as logged:
        followed.look()
        followed.look()

    assert (followed.served, followed.expiry) == (pairs[1], pairs[1].not_after.timestamp())
    assert (followed.certificates.unready(), followed.certificates.ca_bundle) == ([], b"")
    fields = {"fingerprint": pairs[1].fingerprint, "expires": str(pairs[1].not_after)}
    assert logged == [{"event": "certificate served", "log_level": "info", **fields}]


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


class _Own:
    """Certificates of the service's own, which are served."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = _NOW
        tls = Tls(directory=str(directory), names=("localhost",))
        self.certificates = Certificates(tls, Metrics(), now=lambda: self.now)
        self.certificates.start()

    @property
    def served(self) -> Leaf | None:
        return self.certificates.serving.leaf

    def lose(self) -> None:
        """Delete CA and leaf, so that others are made."""
        for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
            (self.directory / name).unlink()


def test_a_new_authority_waits_until_clients_know_it(tmp_path: Path) -> None:
    """A look finds what is new without serving it, and it waits for clients as long as what is served is good."""
    own = _Own(tmp_path)
    before = own.served
    own.lose()
    told: list[x509.Certificate] = []

    own.certificates.look()
    looked, bundle = own.served, own.certificates.ca_bundle
    own.certificates.install(told.__contains__)
    waiting, ready = own.served, own.certificates.unready()
    told.append(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))
    own.certificates.install(told.__contains__)

    assert bundle == (tmp_path / "ca-bundle.crt").read_bytes()
    assert bundle.count(b"BEGIN CERTIFICATE") == 2
    assert (looked, waiting, ready) == (before, before, [])
    assert own.served not in (before, None)
    assert own.certificates.unready() == []


def test_trouble_with_its_own_directory_changes_nothing(tmp_path: Path) -> None:
    """What cannot be renewed is logged, and the pair before it goes on."""
    own = _Own(tmp_path)
    before = own.served
    (tmp_path / "tls.crt").write_text("somebody else's\n", encoding="utf-8")

    with capture_logs() as logged:
        own.certificates.look()
        own.certificates.install()

    assert own.served == before
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [("certificate not renewed", "error")]
    assert own.certificates.unready() == []


def test_what_is_over_is_not_served_on(tmp_path: Path) -> None:
    """Once the old leaf has expired the new one is shown though clients do not know it; readiness says so."""
    own = _Own(tmp_path)
    own.lose()
    own.now += timedelta(days=8)

    own.certificates.look()
    expired = own.certificates.unready()
    own.certificates.install(lambda _: False)
    unknown = own.certificates.unready()
    own.certificates.install()

    assert expired == [f"the served certificate expired on {moment(_NOW + LEAF_LIFETIME)}"]
    assert unknown == ["clients do not know the CA of the served certificate yet"]
    assert own.certificates.unready() == []


def _for_clients(directory: Path) -> tuple[Path, Certificates]:
    """Certificates that ask callers for one of the CAs in a file, and the file."""
    file = directory / "clients.crt"
    return file, Certificates(_tls(directory=directory / "own", clientCaFile=file), Metrics())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, " does not exist"),
        (b"", ": it is empty"),
        (b"notes\n", ": it has no PEM block (no line like -----BEGIN CERTIFICATE-----)"),
    ],
    ids=["missing", "empty", "text"],
)
def test_authorities_of_clients_have_to_be_there(content: bytes | None, problem: str, tmp_path: Path) -> None:
    """Without them at start nobody could be let in, or everybody: it is an error that names setting and file."""
    file, certificates = _for_clients(tmp_path)
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(StoreError) as raised:
        certificates.start()

    assert str(raised.value) == f"tls.clientCaFile: {file}{problem}"
    assert certificates.serving.leaf is None


def test_authorities_of_clients_are_followed(tmp_path: Path, authority: Authority) -> None:
    """A new file counts at the next look; one that cannot be used is said once, and the one before it goes on."""
    other = new_authority(_NOW, name="Their CA")
    file, certificates = _for_clients(tmp_path)
    file.write_bytes(authority.cert_pem)

    with capture_logs() as logged:
        certificates.start()
        file.write_bytes(b"")
        for _ in range(3):
            certificates.look()
        file.write_bytes(authority.cert_pem + other.cert_pem)
        certificates.look()

    required = {"event": "client certificates required", "log_level": "info"}
    assert [entry for entry in logged if not entry["event"].startswith("certificate")] == [
        {**required, "authorities": ["CN=cks-admission CA"]},
        {"event": "CAs of clients refused", "log_level": "warning", "reason": f"{file}: it is empty"},
        {**required, "authorities": ["CN=cks-admission CA", "CN=Their CA"]},
    ]
    assert certificates.serving.context.verify_mode == ssl.CERT_REQUIRED
    assert certificates.unready() == []
