"""The clock of a real process, which can be put forward while it runs. It needs a C compiler."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

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
