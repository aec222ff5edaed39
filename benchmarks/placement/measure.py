"""Every way in turn on one control plane: the example of six Nodes in random orders, and the stream of gangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cluster import gangs, manifests, racks, service, toolchain
from cluster.controlplane import ControlPlane
from cluster.gangs import WAYS, Way
from cluster.programs import CONTROL_PLANE
from cluster.racks import Landing, Racks

from benchmarks.placement import page, stream
from benchmarks.placement.history import History, figures_of
from benchmarks.placement.run import Run
from benchmarks.placement.stream import HEAVY, USUAL, Load
from benchmarks.report import Figure

RUNS = 10
SEED = 1
MORE_IDLE = 0.01
"""Of all GPUs: what the service may leave idle beyond what a scheduler does that is told nothing."""
HELD = 0.005
"""Of all GPUs: what gangs may hold that wait for the rest of their Pods."""
NAMES: Mapping[Way, str] = {
    "plain": "nothing",
    "required": "required Pod affinity",
    "preferred": "preferred Pod affinity",
    "gate": "the service: a gate",
    "workload": "the service: Kubernetes' own constraint",
}
_HEAVY: tuple[Way, ...] = ("plain", "gate")
NAMESPACE = "gangs"


class Measurement(NamedTuple):
    """landings: of the six-Node example, by way. histories: of the stream, by way; heavy: where more gangs come."""

    landings: Mapping[Way, Counter[Landing]]
    histories: Mapping[Way, History]
    heavy: Mapping[Way, History]


def measure(_directory: Path, _rounds: int, _seconds: float, say: Callable[[str], None]) -> Measurement:
    """Run everything, and write it into the documentation. Raises LoadError, ComponentError and ToolchainError."""
    landings: dict[Way, Counter[Landing]] = {}
    histories: dict[Way, History] = {}
    heavy: dict[Way, History] = {}
    for way in WAYS:
        with _cluster(way) as cluster:
            say(f"{way}: six Nodes")
            landings[way] = _land(cluster, way)
            histories[way] = _flow(cluster, way, USUAL, say)
    for way in _HEAVY:
        with _cluster(way) as cluster:
            heavy[way] = _flow(cluster, way, HEAVY, say)
    measurement = Measurement(landings, histories, heavy)
    page.write(table(measurement), {NAMES[way]: history for way, history in histories.items()})
    return measurement


@contextmanager
def _cluster(way: Way) -> Iterator[ControlPlane]:
    """A control plane of a way's own, and the service for the ways that are its."""
    gates, apis = (gangs.GATES, gangs.APIS) if way == "workload" else ((), ())
    with ControlPlane(toolchain.ensure(CONTROL_PLANE), gates=gates, apis=apis) as cluster, ExitStack() as stack:
        if way in {"gate", "workload"}:
            topology = {"workloadScheduling": "on" if way == "workload" else "off"}
            asked = stack.enter_context(service.registered(cluster, topology=topology))
            said = "workload scheduling"
            if way == "workload":
                cluster.wait_for("the service to find out about it", lambda: bool(asked.events(said)))
        cluster.namespace(NAMESPACE)
        yield cluster


def _land(cluster: ControlPlane, way: Way) -> Counter[Landing]:
    """How often the example landed how, in as many orders of Nodes."""
    found: Counter[Landing] = Counter()
    with racks.standing(cluster):
        example = Racks(cluster, NAMESPACE)
        for run in range(RUNS):
            example.arrange(run)
            found[example.land(way)] += 1
        cluster.objects.delete_all("jobs", "pods", namespace=NAMESPACE)
    return found


def _flow(cluster: ControlPlane, way: Way, load: Load, say: Callable[[str], None]) -> History:
    """The stream of gangs."""
    labels = dict(stream.nodes())
    for name, places in labels.items():
        cluster.objects.create(manifests.node(name, places, [], {"nvidia.com/gpu": stream.GPUS}))
    return Run(cluster, NAMESPACE, way, labels).go(stream.arrivals(SEED, load), say)


def figures(measurement: Measurement) -> Iterator[Figure]:
    """What the service promises, with its targets."""
    yield Figure("six Nodes in one rack", measurement.landings["gate"]["together"] / RUNS, 1.0, at_least=True)
    for load, histories in (("usual", measurement.histories), ("heavy", measurement.heavy)):
        own, plain = figures_of(histories["gate"]), figures_of(histories["plain"])
        yield Figure(f"{load} load: gangs in the domain that they require", own.share, 1.0, at_least=True)
        yield Figure(f"{load} load: gangs that never started", own.never, 0)
        yield Figure(f"{load} load: GPUs held by gangs that wait", own.held, HELD)
        yield Figure(f"{load} load: GPUs idle, more than without", own.idle - plain.idle, MORE_IDLE)


def table(measurement: Measurement) -> Iterator[str]:
    """Both tables, in Markdown."""
    yield from _head("told to the scheduler", "together", "split", "some Pods wait for ever")
    for way, found in measurement.landings.items():
        yield _row(NAMES[way], found["together"], found["split"], found["stuck"] + found["waiting"])
    for title, histories in (("Usual load:", measurement.histories), ("Heavy load:", measurement.heavy)):
        yield from ("", title, "")
        yield from _streams(histories)


def _streams(histories: Mapping[Way, History]) -> Iterator[str]:
    yield from _head(
        "told to the scheduler", "rack gangs in one rack", "superpod gangs in one superpod", "never started",
        "Pods pending at the end", "GPUs idle", "GPUs held by gangs that wait", "seconds to start, median",
        "9 of 10 within",
    )  # fmt: skip
    for way, history in histories.items():
        of_way = figures_of(history)
        together = (f"{part} of {whole}" for part, whole in zip(of_way.together, of_way.gangs, strict=True))
        shares = (f"{share:.2%}" for share in (of_way.idle, of_way.held))
        waits = (f"{seconds:.1f}" for seconds in of_way.wait)
        yield _row(NAMES[way], *together, of_way.never, of_way.pending, *shares, *waits)


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|" + "---|" * len(names)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def as_json(measurement: Measurement) -> dict[str, Any]:
    """All figures."""
    streams = {"usual": measurement.histories, "heavy": measurement.heavy}
    return {
        "six Nodes": {way: dict(landings) for way, landings in measurement.landings.items()},
        **{
            load: {way: msgspec.to_builtins(figures_of(history)) for way, history in histories.items()}
            for load, histories in streams.items()
        },
    }
