"""Every way in turn on one control plane: the example of six Nodes in random orders, and the stream of gangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from cluster import gangs, manifests, racks, service, toolchain
from cluster.controlplane import ControlPlane
from cluster.gangs import WAYS, Way
from cluster.programs import CONTROL_PLANE
from cluster.racks import Landing, Racks

from benchmarks.placement import page, stream
from benchmarks.placement.history import LATE_SECONDS, Figures, History, figures_of
from benchmarks.placement.run import Run
from benchmarks.placement.stream import Arrival, Beside
from benchmarks.report import Figure, markdown

RUNS = 10
SEED = 1
MORE_IDLE = 0.01
"""Of all GPUs: what the service may leave idle beyond what a scheduler does that is told nothing."""
MOST_HELD = 0.005
"""Of all GPUs: what gangs that wait may hold."""
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
    """landings: of the six-Node example, by way. histories: of the stream, by way.

    heavy: of the stream that asks for nearly all GPUs, by way and seed. beside: of the gate with plain Pods beside.
    """

    landings: Mapping[Way, Counter[Landing]]
    histories: Mapping[Way, History]
    heavy: Mapping[tuple[Way, int], History]
    beside: History

    def figures(self, way: Way) -> Figures:
        """The figures of a way's run."""
        return figures_of(self.histories[way])


def measure(say: Callable[[str], None], seeds: Sequence[int] = (SEED,)) -> Measurement:
    """Run everything, and write it into the documentation. seeds: of the heavy load.

    Raises LoadError, ComponentError and ToolchainError.
    """
    landings: dict[Way, Counter[Landing]] = {}
    histories: dict[Way, History] = {}
    heavy: dict[tuple[Way, int], History] = {}
    beside = History((), 0.0)
    for way in WAYS:
        with _cluster(way) as cluster:
            say(f"{way}: six Nodes")
            landings[way] = _land(cluster, way)
            flow = _Flow(cluster, way, say)
            histories[way] = flow.run(stream.arrivals(SEED))
            if way in _HEAVY:
                heavy |= {(way, seed): flow.run(stream.arrivals(seed, stream.HEAVY)) for seed in seeds}
            if way == "gate":
                gangs_of = stream.arrivals(SEED)
                beside = flow.run(gangs_of, stream.beside(SEED, gangs_of[-1].at))
    measurement = Measurement(landings, histories, heavy, beside)
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


class _Flow:
    """The stream of gangs, on Nodes that are made once."""

    def __init__(self, cluster: ControlPlane, way: Way, say: Callable[[str], None]) -> None:
        self._cluster, self._way, self._say = cluster, way, say
        self._labels = dict(stream.nodes())
        for name, places in self._labels.items():
            cluster.objects.create(manifests.node(name, places, [], {"nvidia.com/gpu": stream.GPUS}))

    def run(self, arrivals: Sequence[Arrival], beside: Sequence[Beside] = ()) -> History:
        """Let gangs come to empty Nodes."""
        self._cluster.objects.delete_all("jobs", "pods", "events", namespace=NAMESPACE)
        self._cluster.wait_for("the Nodes to be empty", self._is_empty)
        return Run(self._cluster, NAMESPACE, self._way, self._labels).go(arrivals, self._say, beside)

    def _is_empty(self) -> bool:
        return not self._cluster.get("pods", "-n", NAMESPACE)["items"]


def figures(measurement: Measurement) -> Iterator[Figure]:
    """What the service promises, with its targets."""
    yield Figure("six Nodes in one rack", measurement.landings["gate"]["together"] / RUNS, 1.0, at_least=True)
    loads = {"usual load": (measurement.histories["gate"], measurement.histories["plain"])}
    for (way, seed), history in measurement.heavy.items():
        if way == "gate":
            loads[f"heavy load, seed {seed}"] = (history, measurement.heavy["plain", seed])
    for load, (gated, without) in loads.items():
        own, plain = figures_of(gated), figures_of(without)
        yield Figure(f"{load}: gangs in the domain that they require", own.share, 1.0, at_least=True)
        yield Figure(f"{load}: gangs that never started", own.never, 0)
        yield Figure(f"{load}: GPUs held by gangs that wait", own.held, MOST_HELD)
        yield Figure(f"{load}: GPUs idle, more than without", own.idle - plain.idle, MORE_IDLE)


def table(measurement: Measurement) -> Iterator[str]:
    """Both tables, in Markdown."""
    landings = (
        (NAMES[way], found["together"], found["split"], found["stuck"] + found["waiting"])
        for way, found in measurement.landings.items()
    )
    yield from markdown(("told to the scheduler", "together", "split", "some Pods wait for ever"), landings)
    yield ""
    runs = {NAMES[way]: measurement.figures(way) for way in measurement.histories}
    heavy = measurement.heavy.items()
    runs |= {f"{NAMES[way]}, heavy load, seed {seed}": figures_of(each) for (way, seed), each in heavy}
    runs[f"{NAMES['gate']}, plain Pods beside"] = figures_of(measurement.beside)
    rows = []
    for name, of_way in runs.items():
        together = (f"{part} of {whole}" for part, whole in zip(of_way.together, of_way.gangs, strict=True))
        shares = (f"{share:.2%}" for share in (of_way.idle, of_way.held))
        waits = (f"{seconds:.1f}" for seconds in of_way.wait)
        rows.append((name, *together, of_way.never, of_way.pending, *shares, *waits))
    head = (
        "told to the scheduler", "rack gangs in one rack", "superpod gangs in one superpod", "never started",
        "Pods pending at the end", "GPUs idle", "GPUs held by gangs that wait", "seconds to start, median",
        "9 of 10 within",
    )  # fmt: skip
    yield from markdown(head, rows)
    yield ""
    late, stays = measurement.beside.late, len(measurement.beside.stays)
    yield (
        f"With plain Pods beside, {late} of {stays} gangs lost room to one between opening and binding: some of their "
        f"Pods were bound over {LATE_SECONDS:g} s after the others, or told of as Stuck."
    )
