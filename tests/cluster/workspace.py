"""The folder and the ports of one control plane."""

from __future__ import annotations

import fcntl
import random
import shutil
import socket
import tempfile
import time
from contextlib import ExitStack, contextmanager
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
_ATTEMPTS = 1000


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
    """Choose a free loopback port for each name. Raises OSError if there are not enough."""
    chosen: dict[str, int] = {}
    with ExitStack() as held:  # all are held until the last is chosen, so that no two are the same
        for name in names:
            for _ in range(_ATTEMPTS):
                port = random.choice(_PORTS)  # noqa: S311 - no secret
                candidate = held.enter_context(socket.socket())
                try:
                    candidate.bind(("127.0.0.1", port))
                except OSError:
                    continue
                chosen[name] = port
                break
            else:
                raise OSError(f"no free port for {name} between {_PORTS.start} and {_PORTS.stop} on 127.0.0.1")
    return chosen
