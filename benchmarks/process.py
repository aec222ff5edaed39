"""The servers as child processes: started, measured from /proc, and ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
TICKS = os.sysconf("SC_CLK_TCK")


class ProcessError(Exception):
    """A server ended, or did not become ready. The text ends with the server's last output."""


class CpuClock:
    """The processor time of a process."""

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")

    def seconds(self) -> float:
        """User and system time until now in seconds, in steps of 10 ms."""
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS  # utime and stime, fields 14 and 15 of proc(5)


class Server(CpuClock):
    """A running server."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        super().__init__(child.pid)
        self.child = child
        self.log = log

    def resident(self) -> float:
        """Memory in use, in MB of 10^6 bytes."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6

    def check(self) -> None:
        """Raise ProcessError if it has ended."""
        if self.child.poll() is not None:
            raise self.error(f"ended with {self.child.returncode}")

    def error(self, what: str) -> ProcessError:
        """An error about this server, with its last output."""
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
        return ProcessError(f"The server of {self.log.name} {what}.\n{tail}")


@contextmanager
def running(command: Sequence[str], log: Path, cores: set[int] | None = None) -> Iterator[Server]:
    """Run a server, on these cores if they are given, and end it afterwards."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    if cores is not None:
        os.sched_setaffinity(child.pid, cores)
    try:
        yield Server(child, log)
    finally:
        child.send_signal(signal.SIGINT)  # not SIGTERM, which waits for endpoints to follow
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class Ended(NamedTuple):
    """A command that has ended: its exit code and output, its largest resident set in MB of 10^6 bytes, and seconds."""

    code: int
    output: bytes
    memory: float
    seconds: float
    cpu: float


def ended(command: Sequence[str]) -> Ended:
    """Run a command to its end, without its stderr."""
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds, cpu = time.monotonic() - began, usage.ru_utime + usage.ru_stime
    return Ended(child.returncode, output, usage.ru_maxrss * 1024 / 1e6, seconds, cpu)


def free_port() -> int:
    """A free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(server: Server, condition: Callable[[], bool]) -> None:
    """Wait until a condition is true that the server fulfils at its start. Raises ProcessError."""
    deadline = time.monotonic() + READY_SECONDS
    while not condition():
        server.check()
        if time.monotonic() > deadline:
            raise server.error(f"was not ready after {READY_SECONDS:.0f} s")
        time.sleep(0.002)


def listens(port: int) -> bool:
    """Whether a process listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(port: int, path: str = "/readyz") -> bool:
    """Whether the answer to a plain GET is 200."""
    connection = HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def program(name: str) -> str:
    """The path of a program in the current Python environment."""
    return str(Path(sys.executable).parent / name)
