"""Faults of machines: a clock that is wrong, and is put forward while a process runs. It needs a C compiler."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from faults.calls import Calls, calling
from faults.documents import GUARD
from faults.process import Process
from faults.site import Site
from faults.table import Result

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The clock of the processes that are started with `environment`."""

    def __init__(self, directory: Path) -> None:
        """Compile what shifts it. Raises CalledProcessError or FileNotFoundError without a C compiler."""
        self._file = directory / "clock"
        self._library = directory / "clock.so"
        self.shift()
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(_SOURCE)]
        subprocess.run(command, check=True, capture_output=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that a process with this clock needs."""
        return {"LD_PRELOAD": str(self._library), "FAULT_CLOCK": str(self._file)}

    def shift(self, wall: float = 0.0, monotonic: float = 0.0) -> None:
        """Put it forward by seconds against the clock of this machine."""
        content = struct.pack("=qq", int(wall * 1e9), int(monotonic * 1e9))
        with self._file.open("r+b" if self._file.exists() else "wb") as file:  # in its place: it is mapped
            file.write(content)


_THREE_DAYS = 3 * 86400.0


def clock_ahead(site: Site) -> Result:
    """The clock of a replica is put forward by three days while it runs, and the replica is started again.

    Callers, whose clock is right, trust its certificate all the time, no call is lost, and p99 is under 1 s.
    """
    directory = site.directory()
    clock = Clock(directory)
    with Process(directory, environment=clock.environment) as process:
        process.wait_until_ready()
        shown = process.certs / "tls.crt"
        before = shown.read_bytes()
        began = time.monotonic()
        calls = asyncio.run(_ahead(process, clock))
        made = "from before" if shown.read_bytes() == before else "that was renewed by the clock ahead"
    with Process(directory, environment=clock.environment) as again:
        again.wait_until_ready()
        kept = asyncio.run(_asked(again))
    return Result(
        seen=f"new connections are made as ever, with the certificate {made}",
        lost=f"while the clock changed {calls.summary}; after the start {kept.summary}",
        healthy=float("inf") if kept.lost else calls.healthy_after(began),
        slow=(*calls.slow("answers while the clock changes"), *kept.slow("answers after the start")),
        promises={"no call lost while the clock changes": calls.flawless, "none after the start": kept.flawless},
    )


def certificate_from_the_future(site: Site) -> Result:
    """The clock is three days ahead where the CA and the first certificate are made.

    Callers, whose clock is right, trust the certificate, p99 under 1 s.
    """
    directory = site.directory()
    clock = Clock(directory)
    clock.shift(wall=_THREE_DAYS)
    with Process(directory, environment=clock.environment) as process:
        process.wait_until_ready()
        made = asyncio.run(_asked(process))
    return Result(
        seen="new connections are made" if made.seconds else "no connection comes about until the clocks agree",
        lost=made.summary,
        healthy=float("inf") if made.lost else 0.0,
        slow=made.slow("answers"),
        promises={"callers trust the certificate": not made.lost},
    )


async def _ahead(process: Process, clock: Clock) -> Calls:
    async with calling(process, GUARD, 20, keep=False) as calls:
        await asyncio.sleep(2)
        clock.shift(wall=_THREE_DAYS)
        await asyncio.sleep(6)  # several looks at the certificate
    return calls


async def _asked(process: Process) -> Calls:
    async with calling(process, GUARD, 20, keep=False) as calls:
        await asyncio.sleep(2)
    return calls
