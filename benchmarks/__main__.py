"""`python -m benchmarks`: everything in one run, about forty minutes. The part `placement` writes docs/placement.md."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.golang import ToolchainError
from cluster.kubectl import KubectlError
from cluster.polling import GaveUpError
from cluster.process import ComponentError

from benchmarks import (
    audit,
    footprint,
    manifests,
    policies,
    policyload,
    reload,
    report,
    servers,
    shadow,
    sizing,
    speed,
    topology,
)  # fmt: skip
from benchmarks.apiserver import cost as apiserver
from benchmarks.cel import compare as cel
from benchmarks.load import LoadError
from benchmarks.placement import measure as placement
from benchmarks.placer import cost as placer
from benchmarks.process import ProcessError
from benchmarks.speed import NoCoresError

FAILURES = (
    ComponentError, GaveUpError, KubectlError, LoadError, NoCoresError, OSError, ProcessError,
    subprocess.CalledProcessError, ToolchainError,
)  # fmt: skip


class Run(argparse.Namespace):
    """The command line, and where a run keeps its files."""

    parts: Sequence[str]
    write: bool
    rounds: int
    seconds: float
    seeds: Sequence[int]
    directory: Path


def _part(module: Any, *, rounds: bool = False) -> Callable[[Run], Iterator[str]]:
    """A part by its module, which has `measure` and `figures`. rounds: whether it takes number and length."""

    def part(run: Run) -> Iterator[str]:
        options = (run.rounds, run.seconds) if rounds else ()
        return report.table(module.figures(module.measure(run.directory, *options, _say)))

    return part


def _policies(run: Run) -> Iterator[str]:
    compared = policies.measure(run.directory, run.rounds, run.seconds, _say)
    loaded, reloaded = policyload.measure(run.directory), reload.measure(run.directory, _say)
    return report.table([*policies.figures(compared), *policyload.figures(loaded), *reload.figures(reloaded)])


def _apiserver(run: Run) -> Iterator[str]:
    costs = apiserver.measure(run.directory, _say)
    if run.write:
        report.write("cost", apiserver.guide(costs), GUIDE)
    yield from apiserver.table(costs)
    yield ""
    yield from report.table(apiserver.figures(costs))


PLACEMENT = "placement"
"""The part that writes a page of its own."""
GUIDE = report.PAGE.parent / "guides" / "policies.md"
PARTS: Mapping[str, Callable[[Run], Iterator[str]]] = {
    "speed": _part(speed, rounds=True),
    "policies": _policies,
    "shadow": _part(shadow, rounds=True),
    "topology": _part(topology, rounds=True),
    "placer": _part(placer),
    "check": _part(manifests),
    "footprint": lambda run: report.table(footprint.measure(run.directory, _say)),
    "sizing": _part(sizing),
    "apiserver": _apiserver,
    "cel": _part(cel),
    PLACEMENT: lambda run: report.table(placement.figures(placement.measure(_say, run.seeds))),
    "audit": _part(audit, rounds=True),
}


def main() -> None:
    """Run the requested parts, and print their tables. Exits with 1 if a part could not be measured."""
    run = _options()
    if not sys.platform.startswith("linux"):
        sys.exit("The benchmarks pin processes to cores and read /proc: they need Linux.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the servers are ended too
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="cks-admission-bench-") as name:
        for part in run.parts:
            _say(part)
            run.directory = Path(name) / part
            servers.issue_certificate(run.directory)
            try:
                lines = list(PARTS[part](run))
            except FAILURES as error:
                failures.append(f"{part}: {error}")
                continue
            print("\n".join((f"## {part}", "", *lines, "")), flush=True)
            if run.write and part != PLACEMENT:
                report.write(part, lines)
    if failures:
        sys.exit("Not measured:\n" + "\n".join(failures))


def _options() -> Run:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the comparison (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of each run in a round (default: 2.5)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the heavy stream of gangs (default: 1)")
    run = parser.parse_args(namespace=Run())
    if unknown := sorted(set(run.parts) - set(PARTS)):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    run.parts = run.parts or tuple(PARTS)
    return run


def _say(line: str) -> None:
    print(f"benchmarks: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
