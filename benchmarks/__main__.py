"""`python -m benchmarks`: everything in one run, about half an hour long."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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
from benchmarks.report import Figure
from benchmarks.speed import NoCoresError

RESULT = Path(__file__).parent / "results" / "latest.json"
PARTS = (
    *("speed", "policies", "shadow", "topology", "placer", "check"),
    *("memory", "start", "cluster", "sizing", "apiserver", "cel", "placement", "audit"),
)
START_RUNS = 9
FAILURES = (
    ComponentError, GaveUpError, KubectlError, LoadError, NoCoresError, OSError, ProcessError,
    subprocess.CalledProcessError, ToolchainError,
)  # fmt: skip


class Results:
    """The measured figures, for people and as JSON."""

    def __init__(self) -> None:
        self.comparisons: list[speed.Comparison] = []
        self.figures: list[Figure] = []
        self.tables: list[str] = []
        self.details: dict[str, Any] = {}

    def add(self, name: str, part: Any, measurement: Any) -> None:
        """Add the findings of a part. part: its module, which formats them."""
        self.tables += ["", *part.table(measurement)]
        self.figures += part.figures(measurement)
        self.details[name] = part.as_json(measurement)


def main() -> None:
    """Run the requested parts, print the tables, write the JSON. Exits with 1 if a part could not be measured."""
    options = _options()
    if not sys.platform.startswith("linux"):
        sys.exit("The benchmarks pin processes to cores and read /proc: they need Linux.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the servers are ended too
    results = Results()
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="cks-admission-bench-") as name:
        directory = Path(name)
        servers.issue_certificate(directory)
        for part in options.parts:
            _say(part)
            try:
                _measure(part, directory, options, results)
            except FAILURES as error:
                failures.append(f"{part}: {error}")
    comparisons, figures = results.comparisons, results.figures
    print("\n".join(f"{key}: {value}" for key, value in report.machine().items()))
    if comparisons:
        print(f"\nSpeed: medians of {options.rounds} rounds of {options.seconds:g} s")
        print("\n".join([*report.speed_table(comparisons), report.bottleneck(comparisons)]))
    print("\n".join(results.tables))
    print("\n" + "\n".join(figure.line for figure in figures))
    RESULT.write_text(
        json.dumps(report.as_json(comparisons, figures, results.details), indent=1) + "\n", encoding="utf-8"
    )
    if failures:
        sys.exit("Not measured:\n" + "\n".join(failures))


def _measure(part: str, directory: Path, options: argparse.Namespace, results: Results) -> None:
    """Measure one part. Raises one of FAILURES."""
    rounds = (options.rounds, options.seconds, _say)
    if part == "speed":
        results.comparisons = speed.compare(directory, *rounds)
        results.figures += report.speed_figures(results.comparisons)
    elif part == "policies":
        results.add("policies", policies, policies.compare(directory, *rounds))
        results.add("policy load", policyload, policyload.measure(directory))
        results.add("reload", reload, reload.measure(directory, _say))
    elif part == "placer":
        results.add("placer", placer, placer.measure(_say))
    elif part == "check":
        results.add("check", manifests, manifests.measure(directory))
    elif part in ("shadow", "topology", "apiserver", "audit"):
        module = {"shadow": shadow, "topology": topology, "apiserver": apiserver, "audit": audit}[part]
        results.add(part, module, module.measure(directory, *rounds))
    elif part == "sizing":
        results.add("sizing", sizing, sizing.measure(directory, _say))
    elif part == "placement":
        results.add("placement", placement, placement.measure(_say, options.seeds))
    elif part == "cel":
        comparison = cel.compare(directory, _say)
        results.tables += ["", *cel.table(comparison)]
        results.figures += cel.figures(comparison)
    else:
        results.figures += _footprint(part, directory)


def _footprint(part: str, directory: Path) -> Iterator[Figure]:
    """The figures of one part."""
    if part == "memory":
        yield Figure("memory when idle", footprint.memory(directory), 80, unit=" MB")
    elif part == "cluster":
        name = f"memory with a cluster of {footprint.NAMESPACES} Namespaces"
        yield Figure(name, footprint.memory_with_cluster(directory), 130, unit=" MB")
    else:
        times = {"ready after": (footprint.start(directory, START_RUNS), 1.0)}
        times |= {verb: (runs, 0.5) for verb, runs in footprint.verbs(START_RUNS).items()}
        for name, (runs, target) in times.items():
            yield Figure(name, runs.median, target, unit=" s", note=f"(best {runs.best:.2f} s of {START_RUNS})")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the comparison (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of each run in a round (default: 2.5)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the heavy stream of gangs (default: 1)")
    options = parser.parse_args()
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    options.parts = options.parts or PARTS
    return options


def _say(line: str) -> None:
    print(f"benchmarks: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
