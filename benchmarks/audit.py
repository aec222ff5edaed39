"""The audit of 2,000 and of 20,000 objects on a real control plane by 30 policies, and admission beside it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from cluster import auditobjects, toolchain
from cluster.apicalls import Caller
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks import auditreports
from benchmarks.apiserver.cost import load
from benchmarks.apiserver.registrations import SERVICE, registrations
from benchmarks.apiserver.writes import writes
from benchmarks.auditreports import Reports
from benchmarks.load import LoadError, Sample
from benchmarks.process import ended
from benchmarks.report import Figure

SMALL, LARGE = 2_000, 20_000
MORE = 23  # beside the seven of the objects
_COMMAND = Path(sys.executable).with_name("cks-admission")
_LABEL = {"matchLabels": {auditobjects.SELECTED: "bench"}}
_CALLERS = 4
_WRITE = "Deployment create"
GROWTH, P99, ROOM = 1.1, 1.1, 0.5
# Only what is known to be violated is counted.
_SETTINGS = {
    "packs": dict.fromkeys(("interruptable-qos", "scheduling-safety", "sunk"), "off"),
    "tolerations": {"action": "off"},
}


class Run(NamedTuple):
    """An audit: its objects and findings, the largest resident set in MB of 10^6 bytes, and seconds."""

    objects: int
    findings: int
    memory: float
    seconds: float
    cpu: float


class Audits(NamedTuple):
    """The audits of few and of many objects, their reports, and the latency of a write without an audit and beside one.

    alone, beside: by round.
    """

    small: Run
    large: Run
    reports: Reports
    alone: tuple[Sample, ...]
    beside: tuple[Sample, ...]

    @property
    def ratio(self) -> float:
        """That of the p99 beside an audit to that without, the median of the rounds."""
        return median(one.p99 / other.p99 for one, other in zip(self.beside, self.alone, strict=True))


def measure(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Audits:
    """Make the objects, audit them, and load the API server with and without an audit.

    Raises LoadError, also if the findings are not exactly the known ones, ComponentError and ToolchainError.
    """
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as cluster:
        for name, numbers in (("bench-small", range(SMALL)), ("bench-large", range(SMALL, LARGE))):
            say(f"audit: making {len(numbers)} objects")
            cluster.namespace(name, labels=_LABEL["matchLabels"])
            _make(cluster, name, numbers)
        cluster.objects.apply(list(auditobjects.policies(_LABEL, MORE)))
        config = directory / "audit.yaml"
        config.write_text(json.dumps(_SETTINGS), encoding="utf-8")
        command = [str(_COMMAND), "audit", "--kubeconfig", str(cluster.kubeconfig("admin")), "--config", str(config)]
        say("audit: judging")
        small = _audited([*command, "-n", "bench-small", "--qps", "1000"], range(SMALL))
        large = _audited([*command, "-n", "bench-small", "-n", "bench-large", "--qps", "1000"], range(LARGE))
        say("audit: writing reports")
        reports = auditreports.measure(cluster, [*command, "--qps", "1000"])
        write = next(write for write in writes(cluster) if write.name == _WRITE)
        pairs = []
        with registrations(directory)[SERVICE](cluster, writes(cluster)[-1]):
            for number in range(rounds):
                say(f"audit: round {number + 1} of {rounds}")
                alone = load(cluster, write, seconds)
                with _beside(command):
                    pairs.append((alone, load(cluster, write, seconds)))
    return Audits(small, large, reports, tuple(alone for alone, _ in pairs), tuple(beside for _, beside in pairs))


def _make(cluster: ControlPlane, namespace: str, numbers: range) -> None:
    """Create objects over a few connections. Raises LoadError."""

    def some(first: int) -> None:
        with Caller(cluster) as caller:
            for number in numbers[first::_CALLERS]:
                obj = auditobjects.made(number, namespace)
                answer = caller.send("POST", auditobjects.PATHS[obj["kind"]].format(namespace), obj)
                if answer.code != http.client.CREATED:
                    raise LoadError(f"an object was not created: {answer}")

    with ThreadPoolExecutor(_CALLERS) as pool:
        list(pool.map(some, range(_CALLERS)))


def _audited(command: list[str], numbers: range) -> Run:
    """One audit, whose findings are compared. Raises LoadError."""
    run = ended([*command, "-o", "json"])
    records = [json.loads(line) for line in run.output.splitlines()]
    found = Counter((r["policy"], r["verdict"], r["kind"], r["name"]) for r in records if r["name"].startswith("o-"))
    if wrong := found - _known(numbers) + (_known(numbers) - found):
        raise LoadError(f"{len(wrong)} findings are not those that are known, such as {next(iter(wrong))}")
    return Run(len(numbers), found.total(), run.memory, run.seconds, run.cpu)


def _known(numbers: range) -> Counter[auditobjects.Violation]:
    """What is wrong with the objects: without the service's exceptions, labels of every seventh are refused."""
    violations = (violation for number in numbers for violation in auditobjects.violations(number, MORE))
    return Counter((policy, "deny" if verdict == "exempt" else verdict, *rest) for policy, verdict, *rest in violations)  # type: ignore[misc]


@contextmanager
def _beside(command: list[str]) -> Iterator[None]:
    """An audit of the whole cluster, at its usual pace, which is ended at the end of the block."""
    with subprocess.Popen([*command, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it judges by now
        try:
            yield
        finally:
            child.kill()


def figures(audits: Audits) -> Iterator[Figure]:
    """Time, memory, the room that reports take, and whether admission suffers."""
    small, large, reports = audits.small, audits.large, audits.reports
    for run in (small, large):
        note = f"({run.findings:,} findings, {run.cpu:.1f} s of processor)"
        yield Figure(f"audit of {run.objects:,} objects", run.seconds, unit=" s", note=note)
    for what, one, other in (("", small, large), (", with reports", reports.small, reports.first)):
        note = f"({one.memory:.0f} and {other.memory:.0f} MB)"
        yield Figure(f"memory at {LARGE:,} objects to {SMALL:,}{what}", other.memory / one.memory, GROWTH, note=note)
    yield Figure("time with reports, to that without", reports.first.seconds / large.seconds)
    yield Figure("time when no report changes, to that without", reports.second.seconds / large.seconds)
    of_reports, of_objects = reports.of_reports, reports.of_objects
    note = f"({of_reports / 1e6:.1f} of {of_objects / 1e6:.1f} MB)"
    yield Figure("reports in etcd, to the objects", of_reports / of_objects, ROOM, note=note)
    yield Figure("p99 of a write beside an audit, to that without", audits.ratio, P99)
