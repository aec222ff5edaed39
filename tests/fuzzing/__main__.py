"""Gives the running service, and the verbs that read files, random input for a while.

    cd tests && python -m fuzzing --seed 1 --seconds 60

The same seed gives the same input in the same order. Ends with 1 and the input if a promise does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from fuzzing.answers import BrokenPromiseError
from fuzzing.rounds import Rounds


def main() -> None:
    """Run rounds until the time is over."""
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="cks-admission-fuzz-") as directory:
            print(asyncio.run(_run(Path(directory), options.seed, options.seconds)))
    except BrokenPromiseError as broken:
        sys.exit(f"seed {options.seed}: {broken}")


async def _run(directory: Path, seed: int, seconds: float) -> str:
    """A summary of all rounds, at least one."""
    ends = time.monotonic() + seconds
    async with Rounds(directory, seed) as rounds:
        await rounds.run()
        while time.monotonic() < ends:
            await rounds.run()
        rounds.check_growth()
        return rounds.summary()


if __name__ == "__main__":
    main()
