"""Run every engine on the same data, and compare their figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cluster.golang import ToolchainError

from benchmarks.cel.policies import POD, POLICIES, policies, shapes
from benchmarks.process import ProcessError
from benchmarks.report import Figure
from benchmarks.speed import cores, pinned

REFERENCE = Path(__file__).parent / "reference"
RUNNERS = ("interpreted", "compiled")
ROUNDS = 2
FASTER, FASTER_TWENTY = 3, 5
COMPILE_MILLISECONDS = 0.4
LOAD_SECONDS, LOAD_MEGABYTES = 2, 60

Lines = Mapping[str, Mapping[str, Any]]
"""The lines that an engine printed, by the name of the figure."""


class Comparison(NamedTuple):
    """The lines of each engine; cel-python's by runner."""

    reference: Lines
    ours: Lines
    python: Mapping[str, Lines]


def measure(directory: Path, say: Callable[[str], None]) -> Comparison:
    """Measure all engines, one after the other on one core. Raises ToolchainError, ProcessError or NoCoresError."""
    program = build(directory, say)
    module = [sys.executable, "-m"]
    ours, reference, python = [], [], {}
    with pinned(cores()[0]):
        for number in range(ROUNDS):
            say(f"this project's engine and kube-apiserver's library, round {number + 1} of {ROUNDS}")
            ours.append(_run([*module, "benchmarks.cel.ours"]))
            reference.append(_run([str(program), str(POD), str(POLICIES)]))
        for runner in RUNNERS:
            say(f"cel-python, {runner}")
            python[runner] = _run([*module, "benchmarks.cel.celpython", runner])
    return Comparison(_fastest(reference), _fastest(ours), python)


def build(directory: Path, say: Callable[[str], None]) -> Path:
    """Build the program around kube-apiserver's library, from the modules that go.mod pins. Raises ToolchainError."""
    go = shutil.which("go")
    if go is None:
        raise ToolchainError(
            "there is no Go on PATH, and the comparison with kube-apiserver's library is written in it"
        )
    program = directory / "reference"
    say("building the program around kube-apiserver's library (a minute, if it was never built before)")
    settings = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    command = [go, "build", "-o", str(program), "."]
    done = subprocess.run(
        command, cwd=REFERENCE, env=os.environ | settings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ToolchainError(f"the comparison with kube-apiserver's library could not be built:\n{done.stderr.strip()}")
    return program


def _run(command: Sequence[str]) -> Lines:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise ProcessError(f"{' '.join(command[:3])} ended with {done.returncode}.\n{tail}")
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def _fastest(runs: Sequence[Lines]) -> Lines:
    """The fastest line of each figure, because disturbances only make a run slower."""
    return {name: min((run[name] for run in runs), key=_time_of) for name in runs[0]}


def _time_of(line: Mapping[str, Any]) -> float:
    return float(line["seconds"]) if "seconds" in line else float(line["nanoseconds_per_operation"]) / 1e9


def figures(comparison: Comparison) -> Iterator[Figure]:
    """Our speed to that of kube-apiserver's library, and the times of compiling."""
    ours, reference = comparison.ours, comparison.reference
    for policy in shapes():
        name = f"evaluate/{policy.name}"
        others = {"typed": (reference, f"evaluate-typed/{policy.name}")}
        others |= {f"cel-python, {runner}": (lines, name) for runner, lines in comparison.python.items()}
        cells = [f"{_time(ours, name) * 1e6:.1f} to {_time(reference, name) * 1e6:.1f} µs"]
        cells += [
            f"{key} {_time(lines, it) * 1e6:.0f} µs" for key, (lines, it) in others.items() if "error" not in lines[it]
        ]
        ratio = _time(reference, name) / _time(ours, name)
        yield Figure(f"{policy.name}: times as fast", ratio, FASTER, at_least=True, note=f"({'; '.join(cells)})")
    one, other = (_time(lines, "twenty") for lines in (ours, reference))
    note = f"({one * 1e6:.0f} to {other * 1e6:.0f} µs)"
    yield Figure(
        "20 policies, from JSON to verdicts: times as fast", other / one, FASTER_TWENTY, at_least=True, note=note
    )
    one, other = (
        median(_time(lines, f"compile/{policy.name}") for policy in policies()) * 1e3 for lines in (ours, reference)
    )
    note = f"(API server {other:.2f} ms)"
    yield Figure("compile an expression, median", one, COMPILE_MILLISECONDS, unit=" ms", note=note)
    load = ours["load"]
    yield Figure("load 1,000 policies of three expressions", load["seconds"], LOAD_SECONDS, unit=" s")
    yield Figure("memory of these", load["megabytes"], LOAD_MEGABYTES, unit=" MB")


def _time(lines: Lines, name: str) -> float:
    """Seconds of the fastest repeat."""
    return _time_of(lines[name])
