"""Secrets as files, for libraries that read only files; in memory rather than on a disk where possible."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

__all__ = ["in_memory", "on_disk", "secret_file"]


@contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """The path of an anonymous file in memory, which exists as long as the context (Linux only)."""
    descriptor = os.memfd_create("pair", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


@contextmanager
def on_disk(content: bytes) -> Iterator[str]:
    """The path of a file in a directory that only this user can enter; both are removed with the context."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(content)
        yield str(path)


def _best() -> Callable[[bytes], AbstractContextManager[str]]:
    # macOS has no memfd; a container without /proc has no path to one.
    return in_memory if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir() else on_disk


secret_file = _best()
