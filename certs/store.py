"""A directory with a CA, a leaf and the bundle, which one process at a time reads, renews and writes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from certs.errors import ForeignFileError, StoreError
from certs.plan import BUNDLE, CA_CERT, CA_KEY, LEAF_CERT, LEAF_KEY, Ensured, plan

# The limit of a Kubernetes Secret (1 MiB). No legitimate file is larger; a device or a log would be.
_LARGEST: Final = 1024 * 1024

_REMEDIES: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.EACCES: "give the user that this process runs as the right to it, or use another place",
        errno.EPERM: "give the file to the user that this process runs as, or use another place",
        errno.EROFS: "the file system is read-only: use a writable volume, such as an emptyDir",
        errno.ENOSPC: "the file system is full: free some space",
        errno.EISDIR: "a directory stands where a file belongs: move it away",
        errno.ENOTDIR: "a file stands where a directory belongs: use another place",
        errno.EEXIST: "a file stands where a directory belongs: use another place",
    }
)


def read_file(path: Path) -> bytes:
    """The content of a file of at most 1 MiB.

    Raises FileNotFoundError if it does not exist, StoreError if it cannot be read or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise access_error(error, path, "read") from error
    if len(content) > _LARGEST:
        raise StoreError(f"{path} is larger than {_LARGEST} bytes, which no certificate or key is; name the right file")
    return content


def replace_file(path: Path, content: bytes, mode: int, aside: Path | None = None) -> None:
    """Replace a file atomically: readers see the old or the new content, even after a crash.

    There must be only one writer at a time, because all writers use the same temporary file. aside: that file, where
    the folder of the other is watched; on the same file system.

    Raises StoreError if the file cannot be written; the old file is still there then.
    """
    # The name is always the same, so that leftovers of crashes do not accumulate.
    aside = aside or path.with_name(f".{path.name}.new")
    try:
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)  # Before the rename: a power cut could leave the new name with no content.
        aside.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise access_error(error, path, "write") from error


def access_error(error: OSError, path: Path, verb: str) -> StoreError:
    """The error for an OSError: what was tried, with which file, as which user, the system's message, the remedy."""
    message = f"cannot {verb} {path} as uid {os.geteuid()}: {error.strerror or error}"
    remedy = _REMEDIES.get(error.errno or 0)
    return StoreError(f"{message}; {remedy}" if remedy else message)


_MODES: Final[Mapping[str, int]] = MappingProxyType(
    {CA_CERT: 0o644, CA_KEY: 0o600, LEAF_CERT: 0o644, LEAF_KEY: 0o600, BUNDLE: 0o644}
)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the directory against all other processes and threads, without a timeout; create it if necessary.

    The kernel releases the lock of a process that dies, so there are no stale locks.

    Raises StoreError if the directory cannot be created or written to.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise access_error(error, directory, "use the directory") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def ensure(directory: Path, names: Iterable[str], now: datetime) -> Ensured:
    """Make the directory hold a CA, a bundle and a leaf for `names` that are valid at `now`; keep those that are.

    Its files are `ca.crt`, `ca.key`, `tls.crt`, `tls.key` and `ca-bundle.crt`. It is created with mode 0700. An
    existing one keeps its mode: it may be a volume that somebody else set up, and the keys are 0600 in any case. Any
    number of processes may call it on one directory: the first makes the pair, the others find it. A reader without the
    lock never sees a partial file, but it may see an old file beside a new one.

    Raises StoreError if a file or the directory cannot be read or written; ForeignFileError, with nothing changed, if a
    file was not made here; InvalidNameError and CertificateError as `Authority.issue` does.
    """
    with locked(directory):
        stored = {}
        for name in _MODES:
            with suppress(FileNotFoundError):
                stored[name] = read_file(directory / name)
        try:
            decided = plan(stored, names, now)
        except ForeignFileError as error:
            raise ForeignFileError(
                f"{directory}: {error}, so it is not overwritten; use an empty directory, or move the file away"
            ) from error
        for name, content in decided.writes.items():
            replace_file(directory / name, content, _MODES[name])
        closed = [reason for name in (CA_KEY, LEAF_KEY) if (reason := close_key(directory / name))]
    return replace(decided, reasons=(*decided.reasons, *closed))


def close_key(path: Path) -> str:
    """Remove the permissions of group and others on a key, and report them; empty if there were none.

    Volumes with an `fsGroup` give the group permissions on every file when they are mounted. Links are not changed.
    """
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) or not mode & (stat.S_IRWXG | stat.S_IRWXO):
            return ""
        path.chmod(_MODES[path.name])
    except OSError as error:
        raise access_error(error, path, "take others' rights from") from error
    return f"{path.name} was closed to others: its mode was {stat.S_IMODE(mode):04o}, now {_MODES[path.name]:04o}"
