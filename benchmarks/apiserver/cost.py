"""Interleaved rounds: in each, every registration in turn, and under it every write at full load."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import yaml
from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks.apiserver.registrations import EMPTY, NONE, SERVICE, registrations
from benchmarks.apiserver.writes import NODE, USER, Write, writes
from benchmarks.load import CONNECTIONS, Sample, put
from benchmarks.process import CpuClock
from benchmarks.report import Figure, markdown
from benchmarks.speed import middle

# What the service may cost to an empty webhook: the API server's processor time, writes a second, and p99.
TO_EMPTY = {
    "CPU Pod create": (1.35, 0.8, 1.25),
    "GPU Pod create": (1.15, 0.9, 1.15),
    "gang's Pod create": (1.35, 0.8, 1.25),
}
DEPLOYMENT = 1.15  # of the processor time without anybody
MORE = 0.1  # milliseconds of processor time for a write without Pods, beside an empty webhook for Pods

Samples = Mapping[tuple[str, str], Sequence[Sample]]


class Costs(NamedTuple):
    """samples: by registration and write, one per round."""

    samples: Samples

    def middle(self, registration: str, write: str, field: str) -> float:
        """The median of the rounds."""
        return middle(self.samples[registration, write], field)

    def more(self, registration: str, write: str, than: str = NONE) -> float:
        """Milliseconds of the API server's processor time for one write more, the median of the rounds."""
        pairs = zip(self.samples[registration, write], self.samples[than, write], strict=True)
        return median(one.cpu - other.cpu for one, other in pairs) * 1e3

    def ratio(self, write: str, field: str, than: str = EMPTY) -> float:
        """The ratio of a figure with the service to that with another registration, the median of the rounds."""
        pairs = zip(self.samples[SERVICE, write], self.samples[than, write], strict=True)
        return median(one.figure(field) / other.figure(field) for one, other in pairs)


def measure(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Costs:
    """Run the rounds. directory: for the policies. Raises LoadError, ComponentError and ToolchainError."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    rows = registrations(directory)
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as cluster:
        measured = writes(cluster)
        pod = next(write for write in measured if write.name == "CPU Pod create")
        for number in range(rounds):
            for name in sorted(rows, key=list(rows).index, reverse=number % 2 == 1):
                say(f"round {number + 1} of {rounds}, {name}")
                with rows[name](cluster, pod):
                    for write in measured:
                        samples.setdefault((name, write.name), []).append(load(cluster, write, seconds))
    return Costs(samples)


def load(cluster: ControlPlane, write: Write, seconds: float) -> Sample:
    """One write again and again over a few connections. Raises LoadError."""
    port = int(cluster.server.rpartition(":")[2])
    exchange = write.exchange(port)
    kubeconfig = cluster.kubelet(NODE) if write.kubelet else cluster.kubeconfig(USER)
    api_server = CpuClock(cluster.component("kube-apiserver").pid)
    return put(port, [exchange] * CONNECTIONS, _context(cluster, kubeconfig), api_server, seconds)


def _context(cluster: ControlPlane, kubeconfig: Path) -> ssl.SSLContext:
    """A TLS context with the client certificate of a kubeconfig."""
    credentials = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    with tempfile.NamedTemporaryFile(dir=cluster.directory) as pair:
        for part in ("certificate", "key"):
            pair.write(base64.b64decode(credentials[f"client-{part}-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


def figures(costs: Costs) -> Iterator[Figure]:
    """What the default registration costs, with its targets."""
    for write, (cpu, rate, p99) in TO_EMPTY.items():
        yield Figure(f"{write}: the API server's CPU to an empty webhook", costs.ratio(write, "cpu"), cpu)
        yield Figure(f"{write}: writes a second to an empty webhook", costs.ratio(write, "rate"), rate, at_least=True)
        yield Figure(f"{write}: p99 to an empty webhook", costs.ratio(write, "p99"), p99)
    deployment = costs.ratio("Deployment create", "cpu", NONE)
    yield Figure("Deployment create: the API server's CPU to that without", deployment, DEPLOYMENT)
    for write in ("Lease update", "Node status", "ConfigMap create"):
        name = f"{write}: the API server's CPU more than with an empty webhook"
        yield Figure(name, costs.more(SERVICE, write, EMPTY), MORE, unit=" ms")


def table(costs: Costs) -> Iterator[str]:
    """The medians behind the figures: a table for each write."""
    for write in dict.fromkeys(name for _, name in costs.samples):
        rows = []
        for row, _ in (pair for pair in costs.samples if pair[1] == write):
            cpu, rate, p50, p99 = (costs.middle(row, write, name) for name in ("cpu", "rate", "p50", "p99"))
            more = f"{costs.more(row, write):+.2f}" if row != NONE else ""
            rows.append((row, f"{cpu * 1e3:.2f}", more, f"{rate:,.0f}", f"{p50 * 1e3:.1f}", f"{p99 * 1e3:.1f}"))
        yield ""
        yield from markdown((write, "API server's CPU ms", "more than without", "a second", "p50 ms", "p99 ms"), rows)
