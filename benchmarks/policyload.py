"""`python -m benchmarks.policyload DIRECTORY`: load policies, in a process of its own to measure its memory."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks import policysets
from benchmarks.report import Figure
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.sources import policyfiles

SECONDS = 2.0
MEGABYTES = 80
RUNS = 5


class Loaded(NamedTuple):
    """seconds: to read files, and to compile their policies. megabytes: that all of it takes."""

    read: float
    compiled: float
    megabytes: float


def measure(directory: Path) -> Loaded:
    """The fastest of some loads of 1,000 policies. Raises CalledProcessError."""
    policies = policysets.thousand(directory / "loaded")
    command = [sys.executable, "-m", "benchmarks.policyload", str(policies)]
    runs = [Loaded(**json.loads(subprocess.check_output(command))) for _ in range(RUNS)]
    return min(runs, key=lambda run: run.read + run.compiled)


def main() -> None:
    """Load the policies in a directory, and print what that took as JSON."""
    before, begun = _resident(), time.perf_counter()
    gc.disable()  # as the service does meanwhile
    files = policyfiles.read(policyfiles.texts([sys.argv[1]]), datetime.now(UTC).date())
    read = time.perf_counter()
    made = rules.build(Settings(), (), rules.of_policies(Settings(), files))
    ended = time.perf_counter()
    gc.enable()
    gc.collect()
    loaded = Loaded(read - begun, ended - read, _resident() - before)
    assert len(made.rules) > policysets.MANY
    print(json.dumps(loaded._asdict()))


def _resident() -> float:
    """The resident set of this process, in MB of 10^6 bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def figures(loaded: Loaded) -> Iterator[Figure]:
    """Time and memory, with their targets."""
    name = f"load of {policysets.MANY:,} policies from files"
    note = f"({loaded.read:.2f} s to read, {loaded.compiled:.2f} s to compile)"
    yield Figure(name, loaded.read + loaded.compiled, SECONDS, unit=" s", note=note)
    yield Figure(f"{name}, memory", loaded.megabytes, MEGABYTES, unit=" MB")


if __name__ == "__main__":
    main()
