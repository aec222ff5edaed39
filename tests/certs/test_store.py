"""The directory: modes, atomic writes, the lock, and errors that say what to do."""

import json
import os
import stat
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.certificates import forge, pem

from certs.errors import ForeignFileError, StoreError
from certs.material import Bundle, load_pair
from certs.plan import close_key, ensure, read_file, usable_authority

_NAMES = ("a.example.com", "10.0.0.1")
_FILES = ["ca-bundle.crt", "ca.crt", "ca.key", "tls.crt", "tls.key"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A directory that does not exist yet."""
    return tmp_path / "var" / "certs"


def _content(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir() if path.name in _FILES}


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_call_makes_the_directory(store: Path, now: datetime) -> None:
    """Directory and keys are closed to others, and the files hold what was returned, nothing left aside."""
    made = ensure(store, _NAMES, now)

    assert _mode(store) == 0o700
    assert {path.name: _mode(path) & 0o077 for path in store.iterdir() if path.suffix == ".key"} == {
        "ca.key": 0,
        "tls.key": 0,
    }
    assert sorted(path.name for path in store.iterdir()) == [".lock", *_FILES]
    stored = _content(store)
    assert load_pair(stored["tls.crt"], stored["tls.key"]) == made.leaf
    assert usable_authority(stored, now) == made.authority
    assert Bundle.from_pem(stored["ca-bundle.crt"]) == made.bundle
    assert made.reasons == ("ca.crt was made: there was none", "tls.crt was made: there was none")


def test_the_second_call_writes_nothing(store: Path, now: datetime) -> None:
    """What is good is returned as it is, and no file is touched."""
    first = ensure(store, _NAMES, now)
    before = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}

    second = ensure(store, _NAMES, now + timedelta(days=1))

    assert (second.leaf, second.authority, second.bundle, second.reasons) == (
        first.leaf,
        first.authority,
        first.bundle,
        (),
    )
    assert {path.name: path.stat().st_mtime_ns for path in store.iterdir()} == before


def test_keys_that_others_may_read(store: Path, now: datetime) -> None:
    """A key that others may read, as an fsGroup makes it, is closed again and the reason says so.

    One that is a symbolic link leads to somebody else's file, whose rights are not ours to change; and one whose rights
    cannot be changed, here since it has vanished, is an error with its path and not a silence.
    """
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
        ensure(store, _NAMES, now + timedelta(days=6))

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


def _race(store: Path, when: datetime, count: int = 4) -> list[list[Any]]:
    command = [sys.executable, "-c", _RACER, str(store), when.isoformat()]
    racers = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        for _ in range(count)
    ]
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
    for when, reasons in ((now, 2), (now + timedelta(days=5), 1)):
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
