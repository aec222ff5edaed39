"""Certificates: served from files or made here, kept with their CA in Secrets, and known to API servers."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from cryptography import x509
from cryptography.x509 import Certificate
from structlog.testing import capture_logs
from support.api.fakeapi import GuardedApi, status
from support.builders import Json
from support.patience import until
from support.service.installation import kubeconfig

from certs.errors import StoreError
from certs.material import LEAF_LIFETIME, Authority, Bundle, Leaf, issued_by, load_certificates, moment, new_authority
from certs.plan import BUNDLE, CA_CERT, CA_KEY, LEAF_CERT, LEAF_KEY, find_leaf
from webhook.certificates import SETTLED_SECONDS as _SETTLED
from webhook.certificates import Certificates, Issuance, TrustWatch, by_all, trusted
from webhook.cluster.api.client import Connection, connect
from webhook.cluster.replicas.lease import SecretStore
from webhook.cluster.replicas.webhooks import WatchState
from webhook.configuration.settings import Registration, Tls
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


def test_files_are_served(tmp_path: Path, pairs: list[Leaf]) -> None:
    """The pair is served from the start, its expiry is a metric, and a new one is told once, when both have changed."""
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


_AUTHORITY, _LATER = (new_authority(datetime(2026, 3, 1, tzinfo=UTC)).certificate for _ in range(2))
_OLD, _NEW = (Bundle((each,)).pem for each in (_AUTHORITY, _LATER))


def _watch(*bundles: bytes) -> WatchState:
    """A configuration with an entry for each bundle, and one of somebody else."""
    configs = [{"caBundle": base64.b64encode(bundle).decode()} if bundle else {} for bundle in bundles]
    entries: list[Json] = [
        {"name": f"{number}.cks-admission.dev", "clientConfig": config} for number, config in enumerate(configs)
    ]
    entries.append({"name": "theirs.example.org", "clientConfig": {}})
    return WatchState(synced=True, current={"ValidatingWebhookConfiguration": {"webhooks": entries}})


_EMPTY, _FIRST, _BOTH = _watch(b""), _watch(_OLD), _watch(_OLD + _NEW)


@pytest.mark.parametrize(
    ("looks", "answers"),
    [
        pytest.param(
            [(_AUTHORITY, _EMPTY, 0), *((_AUTHORITY, _FIRST, seconds) for seconds in (1, _SETTLED, _SETTLED + 1))],
            [False, False, False, True],
            id="one-that-comes-has-to-settle",
        ),
        pytest.param(
            [(_AUTHORITY, _FIRST, 0), (_AUTHORITY, _EMPTY, 1), (_AUTHORITY, _FIRST, 2)],
            [True, False, False],
            id="it-goes",
        ),
        pytest.param(
            [(one, _BOTH, seconds) for seconds in (0, _SETTLED) for one in (_AUTHORITY, _LATER)],
            [True, False, True, True],
            id="a-later-one-that-is-there",
        ),
        pytest.param([(_AUTHORITY, WatchState(), 0), (_AUTHORITY, _FIRST, 0)], [False, True], id="at-start"),
        pytest.param([(_AUTHORITY, WatchState(synced=True), 0)], [True], id="nothing-is-registered"),
        # What is there at the start has been there for long: in each caBundle of the service, or it is not known.
        pytest.param([(_LATER, _watch(), 0)], [True], id="no-entry-of-ours"),
        pytest.param([(_LATER, _watch(_NEW + _OLD, _OLD), 0)], [False], id="one-entry-is-old"),
        pytest.param([(_LATER, _watch(_NEW + _OLD, _OLD + _NEW), 0)], [True], id="all-entries"),
        pytest.param([(_LATER, _watch(_NEW, b""), 0)], [False], id="the-systems-roots"),
        pytest.param([(_LATER, _watch(_NEW, b"broken"), 0)], [False], id="unreadable"),
    ],
)
def test_a_ca_is_known_once_api_servers_had_time(
    looks: list[tuple[Certificate, WatchState, float]], answers: list[bool]
) -> None:
    """API servers hear of a CA at their own times, so it counts only after it has been there for some seconds."""
    webhooks: Any = SimpleNamespace(state=None)
    now = 0.0
    knows = TrustWatch(webhooks, lambda: now)
    found = []
    for authority, webhooks.state, seconds in looks:
        now = 1000.0 + seconds
        found.append(knows(authority))

    assert found == answers


@pytest.mark.parametrize(
    ("registration", "is_asked"),
    [
        pytest.param({"apply": True}, True, id="written"),
        pytest.param({"caOnly": True}, True, id="caBundle-alone"),
        pytest.param({}, False, id="nothing-written"),
        pytest.param({"apply": True, "caFile": "ca.crt"}, False, id="of-a-file"),
        pytest.param({"apply": True, "injectCaFrom": "cks/serving"}, False, id="of-cert-manager"),
    ],
)
def test_the_configurations_are_asked_where_they_can_tell(registration: dict[str, Any], *, is_asked: bool) -> None:
    """Where another CA is written there, as that of a proxy, waiting for the service's own would never end."""
    webhooks: Any = SimpleNamespace(state=_EMPTY)
    found = trusted(Registration.model_validate(registration), webhooks)

    assert (isinstance(found, TrustWatch), found is by_all) == (is_asked, not is_asked)
    assert trusted(Registration(apply=True), None) is by_all


START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SECRETS = "/api/v1/namespaces/cks/secrets"
NAMES = ("cks-admission.cks.svc", "localhost")


class _World:
    """An API server and the time."""

    def __init__(self, server: GuardedApi, api: Connection) -> None:
        self.server = server
        self.api = api
        self.now = START

    @property
    def stored(self) -> dict[str, bytes]:
        """The content of the Secret with the CA."""
        found = self.server.get(SECRETS, "ca")
        return {key: base64.b64decode(text) for key, text in found["data"].items()} if found else {}

    def store(self, contents: Mapping[str, bytes | None]) -> None:
        """Change it, as somebody with kubectl does; None to delete a key."""
        kept = {name: content for name, content in {**self.stored, **contents}.items() if content is not None}
        _put(self, "ca", kept)


def _reasons(entries: Sequence[Any], event: str = "certificate") -> list[str]:
    return [entry["reason"] for entry in entries if entry["event"] == event]


class _Managing:
    """A process that manages, what clients know, and what replicas show."""

    def __init__(self, world: _World, stores: Sequence[SecretStore]) -> None:
        self.world = world
        self.leader = cast("Any", SimpleNamespace(leading=True, holder="me"))
        self.known: set[Certificate] | None = None
        self.shown: list[Certificate | None] = []
        self.metrics = Metrics("manage")
        self.ca, self.leaf_store = stores
        self.issuance = Issuance(
            self.ca, self.leaf_store, self.leader, NAMES, self._trusted, self._handshakes, self.metrics,
            lambda: world.now,
        )  # fmt: skip

    async def turn(self) -> None:
        """What it does every few seconds, with all that was written before known."""
        await until(lambda: not self.ca.unsynced() and not self.leaf_store.unsynced())
        self.issuance.look()
        await self.issuance.save()
        self.issuance.install()

    @property
    def leaf(self) -> Leaf:
        found = find_leaf(self.leaf_store.stored).pair
        assert found is not None
        return found

    @property
    def authority(self) -> Certificate:
        return load_certificates(self.world.stored[CA_CERT])[0]

    @property
    def bundle(self) -> set[Certificate]:
        """The CAs that clients are told of."""
        assert self.issuance.ca_bundle is not None
        return set(Bundle.from_pem(self.issuance.ca_bundle))

    def _trusted(self, authority: Certificate) -> bool:
        return self.known is None or authority in self.known

    async def _handshakes(self) -> Sequence[Certificate | None]:
        return self.shown


@asynccontextmanager
async def managing(world: _World) -> AsyncIterator[_Managing]:
    """The process, which follows both Secrets."""
    stores = [SecretStore(world.api, "cks", name) for name in ("ca", "leaf")]
    for store in stores:
        await store.start()
    try:
        yield _Managing(world, stores)
    finally:
        for store in stores:
            await store.stop()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[_World]:
    """An API server without a Secret."""
    async with GuardedApi() as server:
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(kubeconfig(server.url)), encoding="utf-8")
        server.put(SECRETS, {"metadata": {"name": "another"}})
        api = await connect(str(file), in_cluster=False)
        yield _World(server, api)
        await api.close()


async def test_the_first_turn(world: _World) -> None:
    """It makes a CA in one Secret and a leaf in the other, which has no key of the CA."""
    async with managing(world) as manage:
        with capture_logs() as logged:
            await manage.turn()
        stored = dict(manage.leaf_store.stored)

    assert set(world.stored) == {BUNDLE, CA_CERT, CA_KEY}
    assert set(stored) == {LEAF_CERT, LEAF_KEY, CA_CERT}
    assert _reasons(logged) == ["ca.crt was made: there was none", "tls.crt was made: there was none"]
    assert manage.issuance.unready() == []
    value = manage.metrics.registry.get_sample_value("cks_admission_certificate_expiry_timestamp_seconds")
    assert value == (START + LEAF_LIFETIME).timestamp()


async def test_a_rotation_goes_step_by_step(world: _World) -> None:
    """The bundle first; the leaf when clients know the CA; the old CA goes when all replicas show the new leaf."""
    async with managing(world) as manage:
        await manage.turn()
        old, first = manage.authority, manage.leaf
        manage.known = {old}
        world.now = START + 250 * DAY
        await manage.turn()  # the stored leaf has ended, as in a test only: it is made anew at once
        world.now += DAY
        new, bridge = manage.authority, manage.leaf
        assert (manage.bundle, first == bridge) == ({old, new}, False)

        manage.shown = [bridge.certificate, bridge.certificate]  # by a CA that clients do not know yet
        await manage.turn()
        assert manage.bundle == {old, new}
        manage.known = {old, new}
        for other in ([None], [first.certificate], []):  # a replica that is silent, one that is behind, none at all
            manage.shown = [bridge.certificate, *other] if other else []
            await manage.turn()
            assert manage.bundle == {old, new}
        manage.shown = [bridge.certificate, bridge.certificate]
        with capture_logs() as logged:
            await manage.turn()

        assert issued_by(bridge.certificate, new)
        assert manage.bundle == {new}
        assert set(Bundle.from_pem(world.stored[BUNDLE])) == {new}
        assert _reasons(logged) == [
            "ca-bundle.crt no longer holds CN=cks-admission CA, since all replicas serve what the current CA signed"
        ]


async def test_the_new_leaf_waits_for_the_bundle(world: _World) -> None:
    """While clients do not know a new CA the leaf of the old one stays, if it is valid."""
    async with managing(world) as manage:
        await manage.turn()
        first, other = manage.leaf, new_authority(START)
        manage.known = {manage.authority}
        _give(world, other, {*manage.bundle, other.certificate})
        await until(lambda: manage.ca.stored.get(CA_CERT) == other.cert_pem)
        await manage.turn()
        waiting = manage.leaf
        manage.known.add(other.certificate)
        await manage.turn()

        assert waiting == first
        assert issued_by(manage.leaf.certificate, other.certificate)


async def test_who_does_not_lead_writes_nothing(world: _World) -> None:
    """Another process of manage waits for the Lease."""
    async with managing(world) as manage:
        manage.leader.leading = False
        await manage.turn()

        assert (world.stored, manage.leaf_store.stored) == ({}, {})
        reason = "Secret cks/ca does not exist; me, which holds the lease, renews it"
        assert manage.issuance.unready() == [f"there is no valid certificate in Secret cks/leaf: {reason}"]


@pytest.mark.parametrize("fault", ["deleted", "foreign", "torn"])
async def test_what_is_spoilt_is_made_anew(world: _World, fault: str) -> None:
    """A leaf that is gone, another's, or damaged is replaced at the next turn."""
    async with managing(world) as manage:
        await manage.turn()
        before = manage.leaf
        theirs = new_authority(START, name="Their CA").issue(["a.example"], START)
        data = {"foreign": {LEAF_CERT: theirs.cert_pem, LEAF_KEY: theirs.key_pem}, "torn": {LEAF_CERT: b"-----BEGIN"}}
        if fault == "deleted":
            world.server.delete(SECRETS, "leaf")
        else:
            _put(world, "leaf", data[fault])
        await until(lambda: manage.leaf_store.stored.get(LEAF_CERT) != before.cert_pem)
        await manage.turn()

        assert manage.leaf != before
        assert issued_by(manage.leaf.certificate, manage.authority)


def _give(world: _World, authority: Authority, bundle: set[Certificate]) -> None:
    """Store another CA, as after a renewal by another process."""
    pem = Bundle(tuple(bundle)).pem
    world.store({CA_CERT: authority.cert_pem, CA_KEY: authority.key_pem, BUNDLE: pem})


def _put(world: _World, name: str, contents: dict[str, bytes]) -> None:
    data = {key: base64.b64encode(content).decode() for key, content in contents.items()}
    world.server.put(SECRETS, {"metadata": {"name": name}, "data": data})


def _cut(name: str, length: int) -> Callable[[_World], None]:
    return lambda world: world.store({name: world.stored[name][:length]})


def _undecodable(world: _World) -> None:
    world.server.put(SECRETS, {"metadata": {"name": "ca"}, "data": {CA_CERT: "%%", CA_KEY: "%%", BUNDLE: "%%"}})


def _foreign(world: _World) -> None:
    theirs = new_authority(START, name="Their CA")
    world.store({CA_CERT: theirs.cert_pem, CA_KEY: theirs.key_pem, "notes": b"hands off"})


def _overtaken(world: _World) -> None:
    """Another CA of ours, as after a Secret was restored from a backup, whose bundle knows the current one."""
    ours = new_authority(START)
    world.store({CA_CERT: ours.cert_pem, CA_KEY: ours.key_pem})


_GONE = "Secret cks/ca is gone, and is made again; the CAs that it held are trusted until they expire"
_CUT = "was renewed: {} is damaged: block 1 (line 1) begins a {} and has no END line: it was cut off"
_THEIRS = "Secret cks/ca is not what its name is reserved for: ca.crt: it holds CN=Their CA, issued by CN=Their CA"
_EMPTY_FILES = [f"{name} was renewed: {name} is damaged: it is empty" for name in (CA_CERT, BUNDLE)]
_FAULTS: dict[str, tuple[Callable[[_World], None], list[str], bool]] = {
    "deleted": (lambda world: world.server.delete(SECRETS, "ca"), [_GONE, "ca.crt was made: there was none"], True),
    "key cut off": (_cut(CA_KEY, 60), [f"ca.crt {_CUT.format(CA_KEY, 'PRIVATE KEY')}"], True),
    "bundle cut off": (_cut(BUNDLE, 200), [f"ca-bundle.crt {_CUT.format(BUNDLE, 'CERTIFICATE')}"], False),
    "no base64": (_undecodable, _EMPTY_FILES, True),
    "somebody else's": (
        _foreign,
        [f"{_THEIRS}; it was not made here, and is overwritten", "ca.crt was made: there was none"],
        True,
    ),
    "another CA of ours": (_overtaken, ["ca-bundle.crt was renewed: the current CA was missing from it"], True),
}


@pytest.mark.parametrize("fault", _FAULTS)
async def test_a_fault_is_repaired(fault: str, world: _World) -> None:
    """Whatever happens to the Secret, it is repaired with a reason, and what replicas serve stays trusted."""
    strike, reasons, renewed = _FAULTS[fault]
    async with managing(world) as manage:
        await manage.turn()
        before, leaf, stored = manage.bundle, manage.leaf, dict(manage.ca.stored)
        manage.known = set(before)
        world.now += DAY
        strike(world)
        await until(lambda: manage.ca.stored != stored)
        with capture_logs() as logged:
            await manage.turn()
            await manage.turn()

        assert _reasons(logged) == reasons
        assert set(Bundle.from_pem(world.stored[BUNDLE])) == manage.bundle
        assert (manage.leaf, before <= manage.bundle, len(manage.bundle)) == (leaf, True, 2 if renewed else 1)


async def test_a_lost_race_to_make_the_authority(world: _World) -> None:
    """Of two that take themselves for the leader and make a CA at once, one wins; the other one takes the winner's."""
    async with managing(world) as first, managing(world) as second:
        await until(lambda: not any(store.unsynced() for one in (first, second) for store in (one.ca, one.leaf_store)))
        world.server.held = asyncio.Event()
        with capture_logs() as logged:
            for manage in (first, second):
                manage.issuance.look()
            saving = asyncio.gather(first.issuance.save(), second.issuance.save())
            await until(lambda: len([seen for seen in world.server.seen if seen.method == "POST"]) == 2)
            world.server.held.set()
            await saving
            for manage in (first, second):
                await until(lambda manage=manage: manage.ca.stored == world.stored)  # type: ignore[misc]
                await manage.turn()

        assert first.bundle == second.bundle == {first.authority}
    refused = f'the API server refused POST {SECRETS} at {world.server.url} (409: "ca" already exists)'
    faster = f"Secret cks/ca could not be written: {refused}; another writer was faster; it is read again"
    of_ca = [reason for reason in _reasons(logged) if "tls.crt" not in reason and "leaf" not in reason]
    assert of_ca == ["ca.crt was made: there was none", faster]


@pytest.mark.parametrize("name", ["ca", "leaf"])
async def test_a_secret_that_cannot_be_written(world: _World, name: str) -> None:
    """Without the right to write it, that is said once, with the right; it is tried on, and works when it may."""
    async with managing(world) as manage:
        await world.server.watched(SECRETS, 2)  # of the CA and of the certificate, so that none takes a failure
        if name == "leaf":
            await manage.turn()
            world.server.delete(SECRETS, "leaf")
            await until(lambda: not manage.leaf_store.stored)
        world.server.fail(SECRETS, 403, status(403, "forbidden"), times=3)
        with capture_logs() as logged:
            for _ in range(3):
                await manage.turn()
            unready = manage.issuance.unready()
            await manage.turn()

        assert manage.issuance.unready() == []

    may = f"a Role in namespace cks must allow the service's account to create secrets, and to update {name} among them"
    answer = f"the API server refused POST {SECRETS} at {world.server.url} (403: forbidden)"
    refused = f"Secret cks/{name} could not be written: {answer}; {may}"
    assert _reasons(logged, "certificate not renewed") == [refused]
    assert unready == [f"there is no valid certificate in Secret cks/leaf: {refused}"]
