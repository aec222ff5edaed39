"""The memory and descriptors of a process and its children, a limit on their memory, and what else a machine does."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import yaml

_CGROUPS = Path("/sys/fs/cgroup/memory")
_GOLDEN = Path(__file__).parents[1] / "chart" / "golden" / "default.yaml"
MEGABYTE = 1024 * 1024


class Peak(NamedTuple):
    """The most memory that was in use at once, in bytes, how it was limited, and how many processes died of it."""

    size: int
    limit: str
    killed: int


def family(pid: int) -> list[int]:
    """The ids of a process and of all processes below it."""
    below: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            below += [int(child) for child in (task / "children").read_text().split()]
    return [pid, *(each for child in below for each in family(child))]


def resident(pid: int) -> int:
    """The memory that a process and its children have resident and share with nobody, in bytes."""
    return _memory(pid, "smaps_rollup", "Pss:")


def _opened(pid: int) -> Iterator[Path]:
    for each in family(pid):
        with suppress(OSError):
            yield from Path(f"/proc/{each}/fd").iterdir()


def descriptors(pid: int) -> int:
    """How many files and connections a process and its children have open."""
    return sum(1 for _ in _opened(pid))


def connections(pid: int, server: str) -> int:
    """How many connections a process and its children have to a server, such as `https://127.0.0.1:6443`."""
    port = f":{int(server.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(port)}
    found = 0
    for descriptor in _opened(pid):
        with suppress(OSError):
            found += str(descriptor.readlink()) in inodes
    return found


def chart_limit() -> int:
    """The memory limit of a replica in the chart as it is by default, in bytes."""
    documents = yaml.safe_load_all(_GOLDEN.read_text(encoding="utf-8"))
    named = {each["metadata"]["name"]: each for each in documents if each["kind"] == "Deployment"}
    (container,) = named["cks-admission"]["spec"]["template"]["spec"]["containers"]
    return int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * MEGABYTE


class Memory:
    """A limit on the memory of processes, by a cgroup where this user may make one; else only their peaks are known."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._held: list[int] = []

    def hold(self, pid: int) -> None:
        """Count a process and the children that it will have."""
        self._held.append(pid)
        if self._directory is not None:
            (self._directory / "cgroup.procs").write_text(str(pid))

    def peak(self) -> Peak:
        """The peak until now."""
        if self._directory is None:
            return Peak(sum(_memory(pid, "status", "VmHWM:") for pid in self._held), "none, only measured", 0)
        most = int((self._directory / "memory.max_usage_in_bytes").read_text())
        control = dict(line.split() for line in (self._directory / "memory.oom_control").read_text().splitlines())
        return Peak(most, "held by the kernel", int(control.get("oom_kill", 0)))


@contextmanager
def limited(size: int) -> Iterator[Memory]:
    """A limit in bytes for those who are held by it; they must have ended when the block does."""
    directory = _CGROUPS / f"cks-admission-{os.getpid()}"
    try:
        directory.mkdir()
        (directory / "memory.limit_in_bytes").write_text(str(size))
    except OSError:
        yield Memory(None)
        return
    try:
        yield Memory(directory)
    finally:
        directory.rmdir()


def _memory(pid: int, file: str, field: str) -> int:
    """The sum of a field of a file in `/proc` over a process and its children, in bytes; it is there in kilobytes."""
    total = 0
    for each in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{each}/{file}").read_text(encoding="utf-8").splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024
    return total


_LOOK_SECONDS = 1.0


class Neighbours:
    """Counts the threads of other processes that run or want to, again and again in this block."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, name="neighbours", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    @property
    def busy(self) -> str:
        """How many there were on average, where that is more than there are cores; else empty."""
        load, cores = sum(self._counts) / len(self._counts), os.cpu_count() or 1
        return f"a load of {load:.1f} besides the run, on {cores} cores" if load > cores else ""

    def _count(self) -> None:
        while not self._counts or not self._ended.wait(_LOOK_SECONDS):
            running = int(Path("/proc/loadavg").read_text(encoding="utf-8").split()[3].partition("/")[0])
            self._counts.append(max(0, running - sum(map(_running, family(os.getpid())))))


def _running(pid: int) -> int:
    """How many threads of a process run or want to."""
    states = []
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            states.append(task.read_text(encoding="utf-8").rpartition(")")[2].split()[0])
    return states.count("R")
