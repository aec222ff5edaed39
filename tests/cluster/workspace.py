"""The folder and the ports of one control plane."""

from __future__ import annotations

import fcntl
import random
import shutil
import socket
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PREFIX = "cks-admission-cluster-"
_LOCK = "in-use"
_SETTLED_SECONDS = 60
# Below 32768, where Linux begins to choose the ports of outgoing connections: between our look at a port and the
# component that opens it, nobody takes it by accident.
_PORTS = range(20000, 32000)
# Each comes up once, since one that was chosen may still wait for the component that is to open it.
_candidates = iter(random.sample(_PORTS, len(_PORTS)))


@contextmanager
def workspace() -> Iterator[Path]:
    """Make a folder that is removed afterwards; if this process is killed, the next one that comes here removes it."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (directory / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove folders (etcd's alone takes 128 MB) whose owner died: the kernel has let go of its lock."""
    for directory in parent.glob(f"{_PREFIX}*"):
        try:
            if directory.stat().st_mtime > time.time() - _SETTLED_SECONDS:
                continue  # perhaps so new that it is not locked yet
            with (directory / _LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:  # in use, not ours, or somebody else removes it right now
            continue


def free_ports(names: Sequence[str]) -> dict[str, int]:
    """Choose a free loopback port for each name, and none a second time. Raises OSError if there are not enough."""
    return {name: _free_port(name) for name in names}


def _free_port(name: str) -> int:
    for port in _candidates:
        with socket.socket() as candidate, suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no free port for {name} between {_PORTS.start} and {_PORTS.stop} on 127.0.0.1")
