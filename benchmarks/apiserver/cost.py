"""Interleaved rounds: in each, every registration in turn, and under it every write at full load."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml
from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks.apiserver.registrations import NONE, SERVICE, registrations
from benchmarks.apiserver.writes import NODE, USER, Write, writes
from benchmarks.load import CONNECTIONS, Sample, put
from benchmarks.process import CpuClock
from benchmarks.report import Figure

P99 = 1.5
# Milliseconds of processor time that the API server may need more for one write, with the default registration.
MORE = {
    "Lease update": 0.1,
    "Node status": 0.1,
    "ConfigMap create": 0.1,
    "Deployment create": 0.3,
    "CPU Pod create": 2.0,
    "GPU Pod create": 2.0,
    "gang's Pod create": 2.0,
}

Samples = Mapping[tuple[str, str], Sequence[Sample]]


class Costs(NamedTuple):
    """samples: by registration and write, one per round."""

    samples: Samples

    def middle(self, registration: str, write: str, field: str) -> float:
        """The median of the rounds."""
        return median(sample.figure(field) for sample in self.samples[registration, write])

    def more(self, registration: str, write: str) -> float:
        """Milliseconds of the API server's processor time for one write more than without, the median of the rounds."""
        pairs = zip(self.samples[registration, write], self.samples[NONE, write], strict=True)
        return median(one.cpu - other.cpu for one, other in pairs) * 1e3

    def ratio(self, registration: str, write: str) -> float:
        """The ratio of p99 to that without, the median of the rounds."""
        pairs = zip(self.samples[registration, write], self.samples[NONE, write], strict=True)
        return median(one.p99 / other.p99 for one, other in pairs)


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
    for write, target in MORE.items():
        without = costs.middle(NONE, write, "cpu") * 1e3
        note = f"({without:.2f} without)"
        yield Figure(f"API server, {write}: more CPU", costs.more(SERVICE, write), target, unit=" ms", note=note)
        yield Figure(f"API server, {write}: p99 to that without", costs.ratio(SERVICE, write), P99)


def table(costs: Costs) -> Iterator[str]:
    """The medians behind the figures."""
    yield f"{'API server':<44}{'CPU ms':>9}{'more':>9}{'writes/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'p99':>7}"
    for (registration, write), _ in sorted(costs.samples.items(), key=lambda item: list(MORE).index(item[0][1])):
        cpu, rate, p50, p99 = (costs.middle(registration, write, name) for name in ("cpu", "rate", "p50", "p99"))
        yield (
            f"  {write:<20}{registration:<22}{cpu * 1e3:>9.2f}{costs.more(registration, write):>9.2f}{rate:>10.0f}"
            f"{p50 * 1e3:>9.2f}{p99 * 1e3:>9.2f}{costs.ratio(registration, write):>7.2f}"
        )


def as_json(costs: Costs) -> dict[str, Any]:
    """All figures, each round included."""
    return {f"{row}, {write}": [sample._asdict() for sample in all_] for (row, write), all_ in costs.samples.items()}
