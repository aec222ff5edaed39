"""Interleaved rounds: in each, every registration in turn, and under it every write at full load."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import yaml
from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks.apiserver.registrations import EMPTY, NONE, PACKS, SERVICE, Registration, registrations
from benchmarks.apiserver.writes import NODE, USER, Write, writes
from benchmarks.load import CONNECTIONS, Sample, put
from benchmarks.process import CpuClock
from benchmarks.report import Figure, markdown
from benchmarks.speed import middle
from policies.kubernetes.release import RELEASES

# What the service may cost to an empty webhook: the API server's processor time, writes a second, and p99.
TO_EMPTY = {
    "CPU Pod create": (1.35, 0.8, 1.25),
    "GPU Pod create": (1.15, 0.9, 1.15),
    "gang's Pod create": (1.35, 0.8, 1.25),
}
DEPLOYMENT = 1.15  # of the processor time without anybody
MORE = 0.1  # milliseconds of processor time for a write without Pods, beside an empty webhook for Pods

NATIVE = 1.5  # milliseconds of processor time for a Pod, beside nobody
# The figures of a sample, in words, by what they are multiplied, and how many digits follow the point.
_FIELDS = (
    ("cpu", "ms of the API server's CPU", 1e3, 2), ("rate", "writes a second", 1.0, 0), ("p99", "p99 in ms", 1e3, 1)
)  # fmt: skip

Samples = Mapping[tuple[str, str], Sequence[Sample]]


class Costs(NamedTuple):
    """What one release costs. samples: by registration and write, one per round."""

    release: str
    samples: Samples

    def more(self, registration: str, write: str, than: str) -> float:
        """Milliseconds of the API server's processor time for one write more, the median of the rounds."""
        pairs = zip(self.samples[registration, write], self.samples[than, write], strict=True)
        return median(one.cpu - other.cpu for one, other in pairs) * 1e3

    def ratio(self, write: str, field: str, registration: str = SERVICE, than: str = EMPTY) -> float:
        """The ratio of a figure with a registration to that with another one, the median of the rounds."""
        pairs = zip(self.samples[registration, write], self.samples[than, write], strict=True)
        return median(one.figure(field) / other.figure(field) for one, other in pairs)


def measure(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Sequence[Costs]:
    """Run the rounds for each release, the newest first. directory: for the policies.

    Raises LoadError, ComponentError and ToolchainError.
    """
    rows = registrations(directory)
    return [_of_release(release.name, rows, rounds, seconds, say) for release in reversed(RELEASES)]


def _of_release(
    release: str, rows: Mapping[str, Registration], rounds: int, seconds: float, say: Callable[[str], None]
) -> Costs:
    samples: dict[tuple[str, str], list[Sample]] = {}
    tools = toolchain.ensure(CONTROL_PLANE, environment={**os.environ, "KUBERNETES": release})
    with ControlPlane(tools) as cluster:
        measured = writes(cluster)
        pod = next(write for write in measured if write.name == "CPU Pod create")
        for number in range(rounds):
            for name in sorted(rows, key=list(rows).index, reverse=number % 2 == 1):
                say(f"Kubernetes {release}, round {number + 1} of {rounds}, {name}")
                with rows[name](cluster, pod):
                    for write in measured:
                        samples.setdefault((name, write.name), []).append(load(cluster, write, seconds))
    return Costs(release, samples)


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


def figures(found: Sequence[Costs]) -> Iterator[Figure]:
    """What the default registration, and the packs in its place, cost the newest release, with its targets."""
    costs = found[0]
    for write, (cpu, rate, p99) in TO_EMPTY.items():
        yield Figure(f"{write}: the API server's CPU to an empty webhook", costs.ratio(write, "cpu"), cpu)
        yield Figure(f"{write}: writes a second to an empty webhook", costs.ratio(write, "rate"), rate, at_least=True)
        yield Figure(f"{write}: p99 to an empty webhook", costs.ratio(write, "p99"), p99)
    deployment = costs.ratio("Deployment create", "cpu", than=NONE)
    yield Figure("Deployment create: the API server's CPU to that without", deployment, DEPLOYMENT)
    for write in ("Lease update", "Node status", "ConfigMap create"):
        name = f"{write}: the API server's CPU more than with an empty webhook"
        yield Figure(name, costs.more(SERVICE, write, EMPTY), MORE, unit=" ms")
    more = costs.more(PACKS, "CPU Pod create", NONE)
    yield Figure("CPU Pod create: the API server's CPU more for the packs as native policies", more, NATIVE, unit=" ms")


def table(found: Sequence[Costs]) -> Iterator[str]:
    """The medians behind the figures: a table for each release and figure, to an empty webhook."""
    for costs, (field, title, unit, digits) in product(found, _FIELDS):
        names, measured = (tuple(dict.fromkeys(keys)) for keys in zip(*costs.samples, strict=True))
        whole = [f"{middle(costs.samples[EMPTY, write], field) * unit:,.{digits}f}" for write in measured]
        rows = [(EMPTY, *whole)]
        rows += [(n, *(f"{costs.ratio(w, field, n):.2f}" for w in measured)) for n in names if n != EMPTY]
        yield ""
        yield from markdown((f"Kubernetes {costs.release}, {title}; below to the first row", *measured), rows)
