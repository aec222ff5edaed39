"""Reads and replaces single files, with a size limit and errors that say what to do."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from certs.errors import StoreError

__all__ = ["access_error", "read_file", "read_present", "replace_file"]

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


def read_present(path: Path) -> bytes:
    """The content of a file, as `read_file` returns it. Raises StoreError also if it does not exist."""
    try:
        return read_file(path)
    except FileNotFoundError as error:
        raise StoreError(f"{path} does not exist") from error


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically: readers see the old or the new content, even after a crash.

    There must be only one writer at a time, because all writers use the same temporary file.

    Raises StoreError if the file cannot be written; the old file is still there then.
    """
    # The name is always the same, so that leftovers of crashes do not accumulate.
    aside = path.with_name(f".{path.name}.new")
    try:
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)  # Before the rename: a power cut could leave the new name with no content.
        aside.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise access_error(error, path, "write") from error


def access_error(error: OSError, path: Path, verb: str) -> StoreError:
    """The error for an OSError: what was tried, with which file, as which user, the system's message, the remedy."""
    message = f"cannot {verb} {path} as uid {os.geteuid()}: {error.strerror or error}"
    remedy = _REMEDIES.get(error.errno or 0)
    return StoreError(f"{message}; {remedy}" if remedy else message)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
