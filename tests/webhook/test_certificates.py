"""The certificate that is served: followed in somebody else's files, or made and renewed by the service."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from cryptography import x509
from structlog.testing import capture_logs
from support.api.fakeapi import status
from support.api.guardedapi import GuardedApi
from support.patience import until
from support.service.replicas import SECRETS, World, logging

from certs.authority import AUTHORITY_LIFETIME, LEAF_LIFETIME, Authority, Leaf, new_authority
from certs.errors import StoreError
from certs.material import Bundle, fingerprint, moment
from certs.plan import BUNDLE, CA_CERT, CA_KEY
from webhook.certificates import Certificates, Upkeep
from webhook.cluster.api.client import connect
from webhook.cluster.replicas.replica import Replica as Sharing
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
    def served(self) -> str | None:
        """The fingerprint of what is shown."""
        return self.certificates.serving.fingerprint

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

    assert followed.served == pairs[0].fingerprint
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

    assert followed.served == pairs[1].fingerprint
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

    assert (kept, ready) == (pairs[0].fingerprint, [])
    assert [entry["event"] for entry in logged] == ["certificate refused"]
    assert logged[0]["reason"].startswith(f"{tmp_path}/tls.crt and {tmp_path}/tls.key: ")
    assert followed.served == pairs[1].fingerprint


def _own(directory: Path, *names: str) -> Certificates:
    return Certificates(Tls(directory=str(directory), names=names or ("localhost",)), Metrics())


def test_a_new_pair_of_its_own_is_served_when_it_is_installed(tmp_path: Path) -> None:
    """A look finds what is new without serving it, so that the API server can be told of a new CA first."""
    certificates = _own(tmp_path)
    certificates.start()
    before = certificates.serving.fingerprint
    for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
        (tmp_path / name).unlink()

    certificates.look()
    looked, bundle = certificates.serving.fingerprint, certificates.ca_bundle
    certificates.install()

    assert looked == before
    assert bundle == (tmp_path / "ca-bundle.crt").read_bytes()
    assert bundle.count(b"BEGIN CERTIFICATE") == 2
    assert certificates.serving.fingerprint not in (before, None)


def test_trouble_with_its_own_directory_changes_nothing(tmp_path: Path) -> None:
    """What cannot be renewed is logged, and the pair before it goes on."""
    certificates = _own(tmp_path)
    certificates.start()
    before = certificates.serving.fingerprint
    (tmp_path / "tls.crt").write_text("somebody else's\n", encoding="utf-8")

    with capture_logs() as logged:
        certificates.look()
        certificates.install()

    assert certificates.serving.fingerprint == before
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [("certificate not renewed", "error")]
    assert certificates.unready() == []


def test_a_new_authority_waits_until_clients_know_it(tmp_path: Path) -> None:
    """A leaf of a CA that clients have not been told of waits as long as what is served is good."""
    now = _NOW
    told: list[x509.Certificate] = []
    certificates = Certificates(Tls(directory=str(tmp_path), names=("localhost",)), Metrics(), now=lambda: now)
    certificates.start()
    before = certificates.serving.fingerprint
    for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
        (tmp_path / name).unlink()

    def shown() -> str | None:
        certificates.look()
        certificates.install(told.__contains__)
        return certificates.serving.fingerprint

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
    assert unknown == ["clients have not been told yet of the CA of the served certificate"]
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


START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ANOTHER_CA = "the leaf was renewed: it is signed by another CA than the current one: its issuer is CN=cks-admission CA,"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An API server without a Secret, and replica a in the lead."""
    async with GuardedApi() as server:
        kubeconfig = tmp_path / "kubeconfig"
        config = {
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
            "clusters": [{"name": "fake", "cluster": {"server": server.url}}],
            "users": [{"name": "me", "user": {"token": "my-token"}}],
        }
        kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        server.put(SECRETS, {"metadata": {"name": "another"}})
        api = await connect(str(kubeconfig), in_cluster=False)
        yield World(server, api, START)
        await api.close()


def another_ca(world: World) -> str:
    """Why a leaf of an old CA is renewed."""
    authority = Bundle.from_pem(world.stored[CA_CERT])
    return f"{ANOTHER_CA} the current CA CN=cks-admission CA with SHA-256 {fingerprint(authority.certificates[0])}"


async def test_the_first_turn(world: World) -> None:
    """The leader makes the CA; each replica shows a leaf of its own by it, and nothing of a leaf is stored."""
    async with world.replica("a") as first, world.replica("b") as second:
        with logging() as logged:
            await world.turn()
        shown = [first.shown, second.shown]
        leaf = first.certificates.serving.leaf
        metrics = [
            first.metrics.registry.get_sample_value(f"cks_admission_{name}_expiry_timestamp_seconds")
            for name in ("certificate", "authority")
        ]

    assert set(world.stored) == {BUNDLE, CA_CERT, CA_KEY}
    assert world.bundle == Bundle.from_pem(world.stored[CA_CERT])
    assert None not in shown
    assert shown[0] != shown[1]
    assert leaf is not None
    assert metrics == [(START + LEAF_LIFETIME).timestamp(), (START + AUTHORITY_LIFETIME).timestamp()]
    assert [(entry["event"], entry.get("reason")) for entry in logged.entries if entry["event"] != "listed"] == [
        ("certificate", "ca.crt was made: there was none"),
        ("certificate", "the leaf was made: there was none"),
        ("certificate served", None),
        ("certificate", "the leaf was made: there was none"),
        ("certificate served", None),
    ]
    assert b"PRIVATE KEY" in world.stored[CA_KEY]
    assert "PRIVATE KEY" not in str(logged.entries)


async def test_clients_see_a_rotation_with_overlap(world: World) -> None:
    """By real handshakes: whoever knows only the old CA is served until clients are told, then whoever knows both."""
    today = datetime.now(UTC).replace(microsecond=0)
    world.now = today - 244 * DAY
    async with world.replica("a") as first, world.replica("b") as second:
        await world.turn()
        world.now = today - 2 * DAY
        await world.turn()
        old = world.bundle
        world.now = today

        first.certificates.look()
        await first.certificates.save()
        await second.told()
        second.certificates.look()
        for replica in (first, second):
            replica.install()
        waiting = [await replica.handshake(old) for replica in (first, second)]
        first.register()
        told = [await replica.handshake(world.bundle) for replica in (first, second)]
        second.install()
        swapped = [await replica.handshake(world.bundle) for replica in (first, second)]
        behind = [await replica.handshake(old) for replica in (first, second)]

    assert len(world.bundle) == 2
    assert waiting == told == swapped == ["shown", "shown"]
    assert behind == ["shown", "unable to get local issuer certificate"]


async def test_a_lost_race_to_make_the_authority(world: World) -> None:
    """Of two that take themselves for the leader and make a CA at once, one wins; the other one takes the winner's."""
    world.holders = ["a", "b"]
    async with world.replica("a") as first, world.replica("b") as second:
        world.server.held = asyncio.Event()
        with logging() as logged:
            for replica in (first, second):
                replica.certificates.look()
            saving = asyncio.gather(first.certificates.save(), second.certificates.save())
            await until(lambda: len([seen for seen in world.server.seen if seen.method == "POST"]) == 2)
            world.server.held.set()
            await saving
            await world.turn()

        authorities = [replica.shared.authority for replica in (first, second)]

    assert [each.cert_pem for each in authorities if each] == [world.stored[CA_CERT]] * 2
    refused = f'the API server refused POST {SECRETS} at {world.server.url} (409: "ca" already exists)'
    faster = "somebody else was faster, and it is looked at again"
    assert logged.shared() == [
        "ca.crt was made: there was none",
        f"Secret cks/ca could not be written: {refused}; {faster}",
    ]
    assert world.bundle == Bundle.from_pem(world.stored[CA_CERT])


def _deleted(world: World) -> None:
    world.server.delete(SECRETS, "ca")


def _cut(name: str, length: int) -> Callable[[World], None]:
    def cut(world: World) -> None:
        world.store({name: world.stored[name][:length]})

    return cut


def _missing(name: str) -> Callable[[World], None]:
    return lambda world: world.store({name: None})


def _undecodable(world: World) -> None:
    world.server.put(SECRETS, {"metadata": {"name": "ca"}, "data": {CA_CERT: "%%", CA_KEY: "%%", BUNDLE: "%%"}})


def _foreign(world: World) -> None:
    theirs = new_authority(START, name="Their CA")
    world.store({CA_CERT: theirs.cert_pem, CA_KEY: theirs.key_pem, "notes": b"hands off"})


def _overtaken(world: World) -> None:
    """Another CA of ours, as after a Secret was restored from a backup, whose bundle knows the current one."""
    ours = new_authority(START)
    world.store({CA_CERT: ours.cert_pem, CA_KEY: ours.key_pem})


_GONE = "Secret cks/ca is gone, and is made anew; the CAs that it held are trusted until they expire"
_CUT_CERT = "block 1 (line 1) begins a CERTIFICATE and has no END line: it was cut off"
_CUT_KEY = "block 1 (line 1) begins a PRIVATE KEY and has no END line: it was cut off"
_THEIRS = "Secret cks/ca is not what its name is reserved for: ca.crt: it holds CN=Their CA, issued by CN=Their CA"
_FAULTS = {
    "deleted": (_deleted, [_GONE, "ca.crt was made: there was none"], True),
    "certificate cut off": (
        _cut(CA_CERT, 200),
        [f"ca.crt was renewed: ca.crt is damaged: {_CUT_CERT}"],
        True,
    ),
    "key cut off": (_cut(CA_KEY, 60), [f"ca.crt was renewed: ca.key is damaged: {_CUT_KEY}"], True),
    "key missing": (_missing(CA_KEY), ["ca.crt was renewed: ca.key is missing"], True),
    "bundle cut off": (
        _cut(BUNDLE, 200),
        [f"ca-bundle.crt was renewed: ca-bundle.crt is damaged: {_CUT_CERT}"],
        False,
    ),
    "no base64": (
        _undecodable,
        [
            "ca.crt was renewed: ca.crt is damaged: it is empty",
            "ca-bundle.crt was renewed: ca-bundle.crt is damaged: it is empty",
        ],
        True,
    ),
    "somebody else's": (
        _foreign,
        [
            f"{_THEIRS}; it was not made here, and is overwritten",
            "ca.crt was made: there was none",
        ],
        True,
    ),
    "another CA of ours": (_overtaken, ["ca-bundle.crt was renewed: the current CA was missing from it"], True),
}


@pytest.mark.parametrize("fault", _FAULTS)
async def test_a_fault_is_repaired(fault: str, world: World) -> None:
    """Whatever happens to the Secret, the leader repairs it at its next turn with a reason; no client is refused."""
    strike, reasons, renewed = _FAULTS[fault]
    async with world.replica("a"), world.replica("b"):
        await world.turn()
        before = world.bundle
        world.now += DAY
        strike(world)
        with logging() as logged:
            await world.turn()
            await world.turn()

    assert logged.shared() == reasons
    assert Bundle.from_pem(world.stored[BUNDLE]) == world.bundle
    assert set(before) <= set(world.bundle)
    own = [another_ca(world)] * 2 if renewed else []
    assert logged.own() == own
    assert len(world.bundle) == (2 if renewed else 1)


async def test_a_fault_while_nobody_leads(world: World) -> None:
    """Without a leader all go on by the CA that they know, renew their leaves, and the next leader keeps it trusted."""
    async with world.replica("a"), world.replica("b") as second:
        await world.turn()
        old = world.bundle
        world.holders = []
        world.server.delete(SECRETS, "ca")
        with logging() as logged:
            for _ in range(10):
                world.now += DAY
                await world.turn()
        world.holders = ["b"]
        await world.turn()
        await world.turn()
        shown = second.certificates.serving.leaf

    assert [reason.partition(":")[0] for reason in logged.reasons()] == ["the leaf was renewed"] * 10
    assert set(old) < set(world.bundle)
    assert shown is not None
    assert shown.not_after == world.now + LEAF_LIFETIME


async def test_a_replica_without_a_certificate_says_whom_it_waits_for(world: World) -> None:
    """Readiness names the holder of the lease, or says that there is none, and what is wrong with the Secret."""
    none = "no certificate is served yet"
    world.holders = ["pod-z"]
    async with world.replica("b") as second:
        await second.turn()
        missing = second.certificates.unready()
        world.holders = []
        nobody = second.certificates.unready()
        world.store({CA_CERT: b"", CA_KEY: b""})
        await second.told()
        await second.turn()
        damaged = second.certificates.unready()
        bundle = second.certificates.ca_bundle
        world.holders = ["b"]
        await second.turn()

        assert second.certificates.unready() == []

    assert missing == [f"{none}; Secret cks/ca does not exist; pod-z, which holds the lease, renews it"]
    assert nobody == [f"{none}; Secret cks/ca does not exist; whoever gets the lease renews it"]
    problem = "the CA in Secret cks/ca cannot be used: ca.crt is damaged: it is empty"
    assert damaged == [f"{none}; {problem}; whoever gets the lease renews it"]
    assert bundle is None


async def test_a_secret_that_cannot_be_written(world: World) -> None:
    """Without the right to write it the leader says so once, is not ready for that reason, and tries on."""
    async with world.replica("a") as first:
        await world.server.watched(SECRETS)
        world.server.fail(SECRETS, 403, status(403, "forbidden"), times=3)
        with logging() as logged:
            for _ in range(3):
                await first.turn()
            unready = first.certificates.unready()
            await first.turn()

        assert first.certificates.unready() == []

    right = "a Role in namespace cks must allow the service's account to create secrets, and to update ca among them"
    answer = f"the API server refused POST {SECRETS} at {world.server.url} (403: forbidden)"
    refused = f"Secret cks/ca could not be written: {answer}"
    assert logged.reasons("certificate not renewed") == [f"{refused}; {right}"]
    assert unready == [f"no certificate is served yet; {refused}; {right}"]


async def test_a_replica_that_starts_amid_a_rotation(world: World) -> None:
    """While clients do not know the new CA, a replica that has nothing else to show is not ready; then it is."""
    async with world.replica("a") as first:
        await world.turn()
        world.server.delete(SECRETS, "ca")
        await first.told()
        first.certificates.look()
        await first.certificates.save()
        fresh = World(world.server, world.api, world.now)
        async with fresh.replica("b") as second:
            changed = asyncio.Event()
            leadership: Any = second
            webhooks: Any = None
            sharing = Sharing(leadership, webhooks, second.secret, changed)
            registrar: Any = SimpleNamespace(look=changed.clear)
            upkeep = Upkeep(
                second.certificates, registrar, Metrics(), 60.0, sharing, lambda authority: authority in world.bundle
            )
            starting = asyncio.create_task(upkeep.start())
            await until(lambda: second.shown)
            amid = second.certificates.unready()
            first.register()
            changed.set()
            await starting
            after = second.certificates.unready()

    assert amid == ["clients have not been told yet of the CA of the served certificate"]
    assert after == []


async def test_leaves_are_renewed_without_the_api_server(world: World) -> None:
    """A month without an answer costs nothing: the CA is known, and leaves are made in memory."""
    async with world.replica("a") as first:
        await world.turn()
        world.server.slow.add(SECRETS)
        world.server.cut(SECRETS)
        for days in range(30):
            world.now = START + days * DAY
            await first.turn()

        assert first.certificates.unready() == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"secret": "ca"}, "tls.secret needs a cluster: set cluster.kubeconfig or cluster.inCluster"),
        (
            {"secret": "ca", "certFile": "tls.crt", "keyFile": "tls.key"},
            "tls: secret and certFile exclude each other; give one of them",
        ),
    ],
    ids=["without a cluster", "beside files"],
)
def test_settings_that_ask_for_too_much(settings: dict[str, str], problem: str) -> None:
    """A Secret needs a cluster, and there is one way to a certificate only."""
    with pytest.raises(SettingsError) as raised:
        Certificates(Tls.model_validate(settings), Metrics())

    assert str(raised.value) == problem
