"""The plan for stored files, and the directory: what is kept or made anew and why, modes, atomic writes, the lock."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from support.certificates import forge, pem
from support.tables import rows

from certs.errors import CertificateError, ForeignFileError, StoreError
from certs.material import (
    AUTHORITY_LIFETIME,
    CLOCK_SKEW,
    LEAF_LIFETIME,
    Authority,
    Bundle,
    issued_by,
    load_pair,
    moment,
    new_authority,
    new_key,
)
from certs.plan import (
    BUNDLE,
    CA_CERT,
    CA_KEY,
    LEAF_CERT,
    LEAF_KEY,
    Ensured,
    close_key,
    ensure,
    plan,
    plan_authority,
    plan_leaf,
    read_file,
    renewal_reason,
    usable_authority,
)
from certs.verify import verify

_NAMES = ("a.example.com", "10.0.0.1")
_DAY = timedelta(days=1)
_LEAF_DUE = (LEAF_LIFETIME - CLOCK_SKEW) / 2
_AUTHORITY_DUE = (2 * AUTHORITY_LIFETIME - CLOCK_SKEW) / 3


@pytest.fixture(scope="module")
def stored(now: datetime) -> Mapping[str, bytes]:
    """All five files as a first plan writes them."""
    return plan({}, _NAMES, now).writes


def _without(stored: Mapping[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: content for name, content in stored.items() if name not in names}


def _consistent(ensured: Ensured, stored: Mapping[str, bytes], now: datetime) -> None:
    """What is returned is what would be stored, is good now, and needs nothing when it is looked at again."""
    after = {**stored, **ensured.writes}
    assert (after[CA_CERT], after[CA_KEY]) == (ensured.authority.cert_pem, ensured.authority.key_pem)
    assert (after[LEAF_CERT], after[LEAF_KEY]) == (ensured.leaf.cert_pem, ensured.leaf.key_pem)
    assert set(Bundle.from_pem(after[BUNDLE])) == set(ensured.bundle)
    assert ensured.authority.certificate in ensured.bundle
    assert renewal_reason(ensured.leaf, now, names=_NAMES, authority=ensured.authority) is None
    assert plan(after, _NAMES, now) == Ensured(ensured.leaf, ensured.authority, ensured.bundle)


def test_the_first_plan_makes_everything(now: datetime) -> None:
    """From nothing come a CA, a bundle and a leaf, the bundle first, and each certificate before its key."""
    decided = plan({}, _NAMES, now)

    assert list(decided.writes) == [BUNDLE, CA_CERT, CA_KEY, LEAF_CERT, LEAF_KEY]
    assert decided.reasons == ("ca.crt was made: there was none", "tls.crt was made: there was none")
    _consistent(decided, {}, now)


def test_what_becomes_of_stored_files(stored: Mapping[str, bytes], now: datetime) -> None:
    """A leaf is renewed alone at half of its life, a CA while clients trust the old one, which goes at its end."""
    (old,) = Bundle.from_pem(stored[BUNDLE])
    kept, half, rotated = (plan(stored, _NAMES, now + days * _DAY) for days in (1, 5, 250))
    later = now + AUTHORITY_LIFETIME + timedelta(hours=1)
    latest = {**stored, **plan(stored, _NAMES, now + 364 * _DAY).writes}
    last = plan(latest, _NAMES, later)

    assert (kept.writes, kept.reasons) == ({}, ())
    leaf = f"half of its life was over on {moment(now + _LEAF_DUE)}; it ends on {moment(now + LEAF_LIFETIME)}"
    end = moment(now + AUTHORITY_LIFETIME)
    ca = f"two thirds of its life were over on {moment(now + _AUTHORITY_DUE)}; it ends on {end}"
    assert (list(half.writes), half.reasons) == ([LEAF_CERT, LEAF_KEY], (f"tls.crt was renewed: {leaf}",))
    assert list(rotated.writes) == [BUNDLE, CA_CERT, CA_KEY, LEAF_CERT, LEAF_KEY]
    assert (rotated.bundle, rotated.reasons[0]) == ((rotated.authority.certificate, old), f"ca.crt was renewed: {ca}")
    assert (list(last.writes), last.bundle) == ([BUNDLE], (last.authority.certificate,))
    assert last.reasons == (
        "ca-bundle.crt no longer holds CN=cks-admission CA, which expired on 2027-03-01 12:00:00 UTC",
    )
    _consistent(half, stored, now + 5 * _DAY)
    _consistent(rotated, stored, now + 250 * _DAY)
    _consistent(last, latest, later)


def test_a_whole_life(now: datetime) -> None:
    """Looked at every day for three years: the leaf always holds, and whoever knows the last bundle trusts it."""
    stored: dict[str, bytes] = {}
    published = Bundle()
    rotations = 0
    for days in range(3 * 365):
        when = now + days * _DAY
        served = stored.get(LEAF_CERT)
        decided = plan(stored, _NAMES, when)
        stored.update(decided.writes)
        ensured = decided
        assert ensured.leaf.not_before <= when <= ensured.leaf.not_after
        if ensured.authority.certificate not in published:
            # Until the new bundle is published the old leaf has to hold, and the old bundle has to know its CA.
            rotations += 1
            assert served is None or x509.load_pem_x509_certificate(served).not_valid_after_utc > when + _DAY
            assert set(published) <= set(ensured.bundle)
        published = ensured.bundle
        assert len(published) <= 2

    assert rotations == 5  # At the start, and at the first look after two thirds of each life.


@pytest.mark.parametrize("jump", [-3650, -30, -3, 3, 30, 3650], ids="{} days".format)
def test_a_clock_that_jumps_and_comes_back(jump: int, stored: Mapping[str, bytes], now: datetime) -> None:
    """Wherever the clock goes, a good pair is there and after it; three days off, callers with a right one take it."""
    there = now + jump * _DAY
    away = plan(stored, _NAMES, there)
    _consistent(away, stored, there)

    moved = {**stored, **away.writes}
    back = plan(moved, _NAMES, now)
    _consistent(back, moved, now)
    if abs(jump) == 3:
        made = plan({}, _NAMES, there)
        findings = verify(made.leaf.chain, made.bundle, _NAMES, now)
        assert [finding.text for finding in findings if not finding.ok] == []
        assert plan(made.writes, _NAMES, now).authority == made.authority
        assert (CA_CERT in away.writes, back.writes) == (False, {})


@rows(__file__, "damage")
def test_damage_is_repaired_with_its_reason(
    damage: Mapping[str, int | None], reasons: list[str], stored: Mapping[str, bytes], now: datetime
) -> None:
    """A file of ours that is missing (None) or cut off is made anew, with whatever depends on it, and no more."""
    broken = _without(stored, *damage)
    broken.update({name: stored[name][:length] for name, length in damage.items() if length is not None})

    decided = plan(broken, _NAMES, now)

    assert [given[: len(start)] for given, start in zip(decided.reasons, reasons, strict=True)] == reasons
    _consistent(decided, broken, now)


def test_a_lost_key_keeps_the_old_authority_trusted(stored: Mapping[str, bytes], now: datetime) -> None:
    """Without its key a CA cannot go on, but leaves that it signed are still being served: it stays in the bundle."""
    decided = plan(_without(stored, CA_KEY, BUNDLE), _NAMES, now)

    (old,) = Bundle.from_pem(stored[BUNDLE])
    assert set(decided.bundle) == {decided.authority.certificate, old}


def test_a_torn_write_is_repaired(stored: Mapping[str, bytes], now: datetime) -> None:
    """A crash between certificate and key leaves a pair that does not match; it is made anew and says so."""
    newer = plan(_without(stored, LEAF_CERT, LEAF_KEY), _NAMES, now).writes

    decided = plan({**stored, LEAF_CERT: newer[LEAF_CERT]}, _NAMES, now)

    (reason,) = decided.reasons
    assert reason.startswith("tls.crt was renewed: the key does not match the certificate CN=a.example.com: SHA-256 of")


@pytest.mark.parametrize("count", range(6))
def test_a_crash_at_any_point_is_repaired(count: int, stored: Mapping[str, bytes], now: datetime) -> None:
    """Whichever files a rotation had written when it died, the next plan takes them for ours and completes them."""
    later = now + 250 * _DAY
    writes = plan(stored, _NAMES, later).writes
    torn = {**stored, **dict(list(writes.items())[:count])}
    fresh = dict(list(stored.items())[:count])

    _consistent(plan(torn, _NAMES, later), torn, later)
    _consistent(plan(fresh, _NAMES, now), fresh, now)


def test_an_authority_that_was_dropped_from_the_bundle_comes_back(stored: Mapping[str, bytes], now: datetime) -> None:
    """A bundle overwritten with somebody else's CA gets ours back and keeps the other."""
    other = new_authority(now, name="their CA")

    decided = plan({**stored, BUNDLE: other.cert_pem}, _NAMES, now)

    assert list(decided.writes) == [BUNDLE]
    assert set(decided.bundle) == {decided.authority.certificate, other.certificate}
    assert decided.reasons == ("ca-bundle.crt was renewed: the current CA was missing from it",)


def test_other_names_make_another_leaf(stored: Mapping[str, bytes], now: datetime) -> None:
    """A name that was added to the configuration is on the next leaf."""
    decided = plan(stored, [*_NAMES, "b.example.com"], now)

    assert decided.leaf.names == (*_NAMES, "b.example.com")
    assert decided.reasons == ("tls.crt was renewed: it is not for b.example.com, only for a.example.com, 10.0.0.1",)


def test_files_of_others_are_not_overwritten(authority: Authority, now: datetime) -> None:
    """What was not made here is refused, with the file, what is in it, and that it is left alone."""
    certificate, key = forge("their.example")
    encrypted = pem(key).replace(b"PRIVATE KEY", b"ENCRYPTED PRIVATE KEY")
    ours = {CA_CERT: authority.cert_pem, CA_KEY: authority.key_pem}
    theirs = {LEAF_CERT: pem(certificate), LEAF_KEY: pem(key)}
    several = {LEAF_CERT: pem(authority.issue(["a.b"], now).certificate, certificate), LEAF_KEY: pem(key)}
    held = "it holds CN=their.example, issued by CN=their.example"
    cases: list[tuple[dict[str, bytes], str]] = [
        *((files, f"tls.crt: {held}") for files in (theirs, {**ours, **theirs}, {LEAF_CERT: pem(certificate)})),
        ({CA_CERT: pem(certificate), CA_KEY: pem(key)}, f"ca.crt: {held}"),
        ({LEAF_KEY: pem(key)}, "tls.key: it holds a private key and there is no tls.crt to tell whose"),
        (
            {**ours, CA_KEY: encrypted},
            "ca.key: the private key is encrypted, and nobody can type its password here: openssl",
        ),
        ({BUNDLE: b"my notes"}, "ca-bundle.crt: it has no PEM block (no line like -----BEGIN CERTIFICATE-----)"),
        ({**ours, CA_CERT: pem(key)}, "ca.crt: block 1 (line 1) is a PRIVATE KEY where only CERTIFICATE blocks belong"),
        (
            {**ours, **several},
            "tls.crt: the key belongs to certificate 2 of 2; the leaf has to be the first of its chain",
        ),
    ]
    for files, found in cases:
        with pytest.raises(ForeignFileError) as raised:
            plan(files, _NAMES, now)
        assert str(raised.value).startswith(found)
        assert str(raised.value).endswith("; it was not made here")


def test_a_key_among_files_that_tell_nothing_is_not_overwritten(stored: Mapping[str, bytes], now: datetime) -> None:
    """When no file is left that names our CA, a key may be anybody's; other CAs in the bundle do not tell."""
    theirs = new_authority(now, name="their CA").cert_pem

    for bundle in (b"", theirs):
        with pytest.raises(ForeignFileError, match=r"tls\.key: it holds a private key and there is no tls\.crt"):
            plan({**_without(stored, LEAF_CERT), CA_CERT: b"", BUNDLE: bundle}, _NAMES, now)
    decided = plan({**_without(stored, LEAF_CERT), CA_CERT: b""}, _NAMES, now)  # by the bundle the key is ours
    assert decided.reasons[-1] == "tls.crt was renewed: tls.crt is missing"


def test_a_whole_foreign_place_can_be_taken_over_on_purpose(now: datetime) -> None:
    """The CA alone can be planned for, and planning with nothing stored replaces whatever is there."""
    with pytest.raises(ForeignFileError):
        plan_authority({CA_CERT: pem(forge("their CA")[0]), CA_KEY: pem(new_key())}, now)

    taken = plan_authority({}, now)

    assert (list(taken.writes), taken.reasons) == ([BUNDLE, CA_CERT, CA_KEY], ("ca.crt was made: there was none",))
    assert plan_authority(taken.writes, now).writes == {}


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(dict.fromkeys((CA_CERT, CA_KEY, BUNDLE)), "there was none", id="all-missing"),
        pytest.param({BUNDLE: b"", CA_KEY: b""}, "ca.key is damaged: it is empty", id="bundle-and-key-empty"),
        pytest.param({BUNDLE: b""}, "", id="bundle-empty"),
    ],
)
def test_what_is_remembered_stays_trusted(
    damage: Mapping[str, bytes | None], problem: str, stored: Mapping[str, bytes], now: datetime
) -> None:
    """Where the bundle is lost, the CAs that were in it before are in the new one, as long as they live."""
    old, expired = new_authority(now - 100 * _DAY), new_authority(now - 400 * _DAY)
    remembered = Bundle((old.certificate, expired.certificate, *Bundle.from_pem(stored[BUNDLE])))
    damaged = {name: content for name, content in {**stored, **damage}.items() if content is not None}

    decided = plan_authority(damaged, now, remembered=remembered)

    assert decided.problem == problem
    assert set(decided.bundle) == {old.certificate, *Bundle.from_pem(stored[BUNDLE]), decided.authority.certificate}
    assert Bundle.from_pem(decided.writes[BUNDLE]) == decided.bundle


def test_a_bundle_that_was_changed_counts(stored: Mapping[str, bytes], now: datetime) -> None:
    """Whoever takes an old CA out of the bundle on purpose does not find it there again."""
    old = new_authority(now - 100 * _DAY)

    decided = plan_authority(stored, now, remembered=Bundle((old.certificate,)))

    assert (decided.writes, old.certificate in decided.bundle) == ({}, False)


def test_an_authority_is_usable_while_clients_accept_it(stored: Mapping[str, bytes], now: datetime) -> None:
    """Long after it should have been renewed a CA can still sign, up to its end; damaged or foreign ones cannot."""
    moments = [now - CLOCK_SKEW - _DAY, now, now + 300 * _DAY, now + 364 * _DAY, now + 366 * _DAY]

    found = [usable_authority(stored, moment) is not None for moment in moments]

    assert found == [False, True, True, True, False]
    assert usable_authority({**stored, CA_KEY: b""}, now) is None
    assert usable_authority({CA_CERT: b"somebody's notes"}, now) is None
    assert usable_authority({}, now) is None


def test_a_leaf_does_not_outlive_its_authority(authority: Authority, now: datetime) -> None:
    """A CA that nobody renews signs shorter lives in its last days, and none after its end."""
    leaf, _ = plan_leaf({}, authority, _NAMES, now + 363 * _DAY, trusted=True)

    assert leaf.not_after == authority.not_after
    with pytest.raises(CertificateError):
        plan_leaf({}, authority, _NAMES, now + 366 * _DAY, trusted=True)


def test_a_stored_leaf_waits_for_clients(authority: Authority, now: datetime) -> None:
    """It is made at once, kept, and renewed for a new CA only when clients know that, or when it is of no use."""
    first, made = plan_leaf({}, authority, _NAMES, now, trusted=False)
    stored = {LEAF_CERT: first.cert_pem, LEAF_KEY: first.key_pem, CA_CERT: authority.cert_pem}
    other = new_authority(now)

    assert made == "tls.crt was made: there was none"
    assert plan_leaf(stored, authority, _NAMES, now + _DAY, trusted=True) == (first, "")
    assert plan_leaf(stored, other, _NAMES, now, trusted=False) == (first, "")
    for when, trusted in ((now, True), (now + 8 * _DAY, False)):
        moved, reason = plan_leaf(stored, other, _NAMES, when, trusted=trusted)
        assert issued_by(moved.certificate, other.certificate)
        assert reason.startswith("tls.crt was renewed: it ")
    _, half = plan_leaf(stored, authority, _NAMES, now + 4 * _DAY, trusted=True)
    assert half.startswith(f"tls.crt was renewed: half of its life was over on {moment(now + _LEAF_DUE)}")


_FILES = ["ca-bundle.crt", "ca.crt", "ca.key", "tls.crt", "tls.key"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A directory that does not exist yet."""
    return tmp_path / "var" / "certs"


def _content(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir() if path.name in _FILES}


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_call_makes_the_directory_and_the_second_nothing(store: Path, now: datetime) -> None:
    """Directory and keys are closed to others, and the files hold what was returned; what is good is not touched."""
    made = ensure(store, _NAMES, now)

    assert (_mode(store), [_mode(store / name) & 0o077 for name in ("ca.key", "tls.key")]) == (0o700, [0, 0])
    assert sorted(path.name for path in store.iterdir()) == [".lock", *_FILES]
    stored = _content(store)
    assert load_pair(stored["tls.crt"], stored["tls.key"]) == made.leaf
    assert usable_authority(stored, now) == made.authority
    assert Bundle.from_pem(stored["ca-bundle.crt"]) == made.bundle
    assert made.reasons == ("ca.crt was made: there was none", "tls.crt was made: there was none")

    before = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}
    assert ensure(store, _NAMES, now + _DAY) == Ensured(made.leaf, made.authority, made.bundle)
    assert {path.name: path.stat().st_mtime_ns for path in store.iterdir()} == before


def test_keys_that_others_may_read(store: Path, now: datetime) -> None:
    """A key that others may read is closed and it is said; one of somebody else is left, and no failure is silent."""
    ensure(store, _NAMES, now)
    (store / "tls.key").chmod(0o660)
    assert ensure(store, _NAMES, now).reasons == ("tls.key was closed to others: its mode was 0660, now 0600",)
    assert _mode(store / "tls.key") == 0o600

    elsewhere = (store / "tls.key").rename(store.parent / "elsewhere.key")
    elsewhere.chmod(0o640)
    (store / "tls.key").symlink_to(elsewhere)
    assert (ensure(store, _NAMES, now).reasons, _mode(elsewhere)) == ((), 0o640)

    with pytest.raises(StoreError) as raised:
        close_key(store / "no.key")
    assert str(raised.value) == (
        f"cannot take others' rights from {store}/no.key as uid {os.geteuid()}: No such file or directory"
    )


def test_leftovers_of_a_crash_are_removed(store: Path, now: datetime) -> None:
    """What a dying process had written aside is replaced, whatever its mode, and not kept."""
    store.mkdir(parents=True)
    (store / ".tls.key.new").write_bytes(b"half a key")
    (store / ".tls.key.new").chmod(0o644)

    ensure(store, _NAMES, now)

    assert not (store / ".tls.key.new").exists()
    assert _mode(store / "tls.key") == 0o600


def test_foreign_files_stop_everything(store: Path, now: datetime) -> None:
    """Somebody's own pair is refused with its path and what to do, and not one file is written."""
    certificate, key = forge("their.example")
    store.mkdir(parents=True)
    (store / "tls.crt").write_bytes(pem(certificate))
    (store / "tls.key").write_bytes(pem(key))

    with pytest.raises(ForeignFileError) as raised:
        ensure(store, _NAMES, now)

    assert str(raised.value) == (
        f"{store}: tls.crt: it holds CN=their.example, issued by CN=their.example; it was not made here, so it is"
        " not overwritten; use an empty directory, or move the file away"
    )
    assert _content(store) == {"tls.crt": pem(certificate), "tls.key": pem(key)}


def test_a_file_in_the_place_of_the_directory(tmp_path: Path, now: datetime) -> None:
    """A path that is a file, or goes through one, is told as such."""
    (tmp_path / "file").write_text("x")

    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        words = f"cannot use the directory {path} .*; a file stands where a directory belongs"
        with pytest.raises(StoreError, match=words):
            ensure(path, _NAMES, now)


def test_a_write_that_fails_keeps_the_old_file(store: Path, now: datetime) -> None:
    """When the new content cannot be put in place, the old one is still whole."""
    ensure(store, _NAMES, now)
    old = _content(store)
    (store / ".tls.crt.new").mkdir()

    with pytest.raises(StoreError, match=r"^cannot write .*/tls\.crt as uid"):
        ensure(store, _NAMES, now + 6 * _DAY)

    assert _content(store) == old


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    """A path that leads to a device ends in an error, not in an ever growing process."""
    (tmp_path / "tls.crt").symlink_to("/dev/zero")

    with pytest.raises(StoreError, match="is larger than 1048576 bytes, which no certificate or key is"):
        read_file(tmp_path / "tls.crt")


# Says when it is ready, waits for the word, and prints what it ended up with: the parent starts all of them at once.
_RACER = """
import json, sys
from datetime import datetime
from pathlib import Path
from certs.plan import ensure
print("ready", flush=True)
sys.stdin.readline()
ensured = ensure(Path(sys.argv[1]), ["a.example.com"], datetime.fromisoformat(sys.argv[2]))
print(json.dumps([ensured.authority.fingerprint, ensured.leaf.fingerprint, ensured.reasons]))
"""


def _race(store: Path, when: datetime) -> list[list[Any]]:
    command = [sys.executable, "-c", _RACER, str(store), when.isoformat()]
    piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, cwd=Path(__file__).parents[2], **piped) for _ in range(4)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [json.loads(racer.communicate()[0]) for racer in racers]


def test_processes_that_start_together_agree(store: Path, now: datetime) -> None:
    """Of several processes on one new directory one makes the pair and the others use it; later, one renews it."""
    for when, reasons in ((now, 2), (now + 5 * _DAY, 1)):
        results = _race(store, when)

        stored = _content(store)
        authority = usable_authority(stored, when)
        assert authority is not None
        leaf = load_pair(stored["tls.crt"], stored["tls.key"])
        assert {(result[0], result[1]) for result in results} == {(authority.fingerprint, leaf.fingerprint)}
        assert sorted(len(result[2]) for result in results) == [0, 0, 0, reasons]


def test_the_lock_of_a_dead_process_is_gone(store: Path, now: datetime) -> None:
    """A process killed while it holds the directory leaves nothing that others would wait for."""
    code = (
        "import os, signal, sys; from pathlib import Path; from certs.plan import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", code, str(store)]
    killed = subprocess.run(command, check=False, cwd=Path(__file__).parents[2])

    assert killed.returncode == -9
    assert len(ensure(store, _NAMES, now).reasons) == 2
