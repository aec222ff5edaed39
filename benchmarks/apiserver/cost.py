"""Interleaved rounds: in each, every registration in turn, and under it every write at full load.

The rounds are many and short, and end after a while: so a whole run takes some ten minutes, and what disturbs a
round is not seen in the median.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

import yaml
from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks.apiserver.registrations import EMPTY, NATIVE, NONE, PACKS, PATCH, SERVICE, Registration, registrations
from benchmarks.apiserver.writes import NODE, USER, Write, writes
from benchmarks.load import CONNECTIONS, Sample, put
from benchmarks.process import CpuClock
from benchmarks.report import Figure, markdown
from benchmarks.speed import middle
from policies.kubernetes.release import FINAL

# Of a run, and of all rounds: of the newest release with all writes, and of the older one with those of POD_WRITES.
SECONDS, NEWEST, OLDER = 0.8, 380.0, 160.0
FEWEST = 2
POD_WRITES = ("Deployment create", "CPU Pod create")

# What the service may cost to an empty webhook: the API server's processor time, writes a second, and p99.
TO_EMPTY = {
    "CPU Pod create": (1.35, 0.8, 1.25),
    "GPU Pod create": (1.15, 0.9, 1.15),
    "gang's Pod create": (1.35, 0.8, 1.25),
}
DEPLOYMENT = 1.15  # of the processor time without anybody
MORE = 0.1  # milliseconds of processor time for a write without Pods, beside an empty webhook for Pods

OF_PACKS = 1.5  # milliseconds of processor time for a Pod, beside nobody

_FIELDS = ("cpu", "rate", "p99")

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


def measure(directory: Path, say: Callable[[str], None]) -> Sequence[Costs]:
    """Run the rounds for each release, the newest first. directory: for the policies.

    Raises LoadError, ComponentError and ToolchainError.
    """
    rows, (newest, *others) = registrations(directory), reversed(FINAL)
    older = [_of_release(release.name, rows, OLDER, POD_WRITES, say) for release in others]
    return [_of_release(newest.name, rows, NEWEST, (), say), *older]


def _of_release(
    release: str, rows: Mapping[str, Registration], seconds: float, only: Sequence[str], say: Callable[[str], None]
) -> Costs:
    """Rounds until the seconds are over. only: the names of the writes; all if it is empty."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    tools = toolchain.ensure(CONTROL_PLANE, environment={**os.environ, "KUBERNETES": release})
    with ControlPlane(tools) as cluster:
        measured = [write for write in writes(cluster) if not only or write.name in only]
        pod = next(write for write in measured if write.name == "CPU Pod create")
        end = monotonic() + seconds
        for number in count():
            if number >= FEWEST and monotonic() > end:
                break
            for name in sorted(rows, key=list(rows).index, reverse=number % 2 == 1):
                say(f"Kubernetes {release}, round {number + 1}, {name}")
                with rows[name](cluster, pod):
                    for write in measured:
                        samples.setdefault((name, write.name), []).append(load(cluster, write, SECONDS))
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
        patch = {field: f"(a webhook that only patches: {costs.ratio(write, field, PATCH):.2f})" for field in _FIELDS}
        name, to = f"{write}: ", "to an empty webhook"
        yield Figure(f"{name}CPU of the API server, {to}", costs.ratio(write, "cpu"), cpu, note=patch["cpu"])
        rates = costs.ratio(write, "rate")
        yield Figure(f"{name}writes a second, {to}", rates, rate, at_least=True, note=patch["rate"])
        yield Figure(f"{name}p99, {to}", costs.ratio(write, "p99"), p99, note=patch["p99"])
    deployment = costs.ratio("Deployment create", "cpu", than=NONE)
    call = f"(an empty webhook: {costs.ratio('Deployment create', 'cpu', EMPTY, NONE):.2f})"
    yield Figure("Deployment create: CPU of the API server, to that without anybody", deployment, DEPLOYMENT, note=call)
    for write in ("Lease update", "Node status", "ConfigMap create"):
        name = f"{write}: CPU of the API server, more than with an empty webhook"
        yield Figure(name, costs.more(SERVICE, write, EMPTY), MORE, unit=" ms")
    more = costs.more(PACKS, "CPU Pod create", NONE)
    yield Figure(
        "CPU Pod create: CPU of the API server, more for the packs as native policies", more, OF_PACKS, unit=" ms"
    )


def table(found: Sequence[Costs]) -> Iterator[str]:
    """Milliseconds of the API server's processor time for an empty webhook; for all else the ratio to that."""
    columns = [(costs, write) for costs in found for write in dict.fromkeys(write for _, write in costs.samples)]
    names = dict.fromkeys(name for name, _ in found[0].samples if name != EMPTY)
    whole = [f"{middle(costs.samples[EMPTY, write], 'cpu') * 1e3:.2f} ms" for costs, write in columns]
    rows = [(name, *(f"{costs.ratio(write, 'cpu', name):.2f}" for costs, write in columns)) for name in names]
    head = (f"{write}, {costs.release}" for costs, write in columns)
    yield from markdown(("CPU of the API server", *head), [(EMPTY, *whole), *rows])


def guide(found: Sequence[Costs]) -> Iterator[str]:
    """What policies and webhooks cost the creation of a Pod, for their authors."""
    pod = "CPU Pod create"
    rows = {
        "a call of a webhook, whatever number of policies it judges by": (EMPTY, NONE, 2),
        "the patch of a webhook, besides": (PATCH, EMPTY, 1),
        "20 native policies for Pods": (NATIVE, NONE, 1),
        "the packs as native policies": (PACKS, NONE, 1),
    }
    cells = [(what, *(f"{c.more(of, pod, than) / by:.1f}" for c in found)) for what, (of, than, by) in rows.items()]
    alone = [f"{middle(costs.samples[NONE, pod], 'cpu') * 1e3:.1f}" for costs in found]
    yield from markdown(("ms", *(costs.release for costs in found)), [("without anybody", *alone), *cells])
