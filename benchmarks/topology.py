"""The cost of topology annotations: a translated Job, and Pods without annotations, with the rule and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks import servers
from benchmarks.bodies import REAL, body
from benchmarks.cel.timing import nanoseconds
from benchmarks.load import Sample, drive
from benchmarks.report import Figure
from benchmarks.speed import cores, middle, pinned
from policies.engine import patch
from policies.engine.facts import StaticFacts
from policies.engine.request import UserInfo
from policies.topology.rule import TopologyPlacement
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.files import manifest

JOB = Path(__file__).parent / "data" / "topology-job.yaml"
# The API server calls the first two for a Pod without annotations: match conditions keep it from the rule's own paths.
# The paths of a whole phase, which no cluster calls, show what it costs to search for annotations and find none.
PATHS = {"/mutate/pods": "/mutate", "/validate/labels": "/validate", "/mutate": "/mutate", "/validate": "/validate"}
WITH, WITHOUT = "with the rule", "without it"
FACTS = StaticFacts(date.min)
TRANSLATION = 150  # microseconds
NOTHING = 0.95  # of the throughput; runs of the same code differ by as much


class Measurement(NamedTuple):
    """translation, validation: microseconds for one Job. rounds: the samples by path and server."""

    translation: float
    validation: float
    rounds: Mapping[str, Mapping[str, Sequence[Sample]]]

    def ratio(self, path: str) -> float:
        """The ratio of throughput with the rule to that without it, the median of the rounds' ratios."""
        pairs = zip(self.rounds[path][WITH], self.rounds[path][WITHOUT], strict=True)
        return median(one.figure("capacity") / other.figure("capacity") for one, other in pairs)


def measure(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Measurement:
    """Time one Job here, and Pods at two services in turn. Raises LoadError, ProcessError or NoCoresError."""
    return Measurement(*translation(), _rounds(directory, rounds, seconds, say))


def translation() -> tuple[float, float]:
    """Microseconds that the rule takes to translate the Job, and those to validate the result."""
    settings = Settings()
    rule = TopologyPlacement(rules.topologies(settings), rules.topology_options(settings))
    job = next(iter(manifest.read([str(JOB)]))).object
    request = manifest.request(job, None, user=UserInfo("user"), namespace="default")
    operations = rule.mutate(request, FACTS).operations
    translated = replace(request, object=patch.apply(job, operations))
    assert operations
    assert not rule.validate(translated, FACTS)
    assert not rule.mutate(translated, FACTS).operations
    calls = (lambda: rule.mutate(request, FACTS), lambda: rule.validate(translated, FACTS))
    first, second = (min(nanoseconds(call)) / 1e3 for call in calls)
    return first, second


def _rounds(
    directory: Path, rounds: int, seconds: float, say: Callable[[str], None]
) -> Mapping[str, Mapping[str, Sequence[Sample]]]:
    server_core, load_core = cores()
    off = servers.configuration(directory / "topology-off.yaml", topology={"action": "off"})
    samples: dict[str, dict[str, list[Sample]]] = {path: {WITH: [], WITHOUT: []} for path in PATHS}
    with (
        pinned(load_core),
        servers.service(directory, cores={server_core}) as on,
        servers.service(directory, "--config", str(off), cores={server_core}) as without,
    ):
        running = {WITH: on, WITHOUT: without}
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for path, servers_ in samples.items():
                for name in sorted(servers_, reverse=number % 2 == 1):
                    target = running[name]
                    servers_[name].append(drive(target.port, path, body(PATHS[path], REAL), target.server, seconds))
    return samples


def figures(measurement: Measurement) -> Iterator[Figure]:
    """What a Job costs, and what the rule costs a Pod that does not ask for it."""
    yield Figure("translation of one Job", measurement.translation, TRANSLATION, unit=" µs")
    yield Figure("validation of the translated Job", measurement.validation, unit=" µs")
    for path, phase in PATHS.items():
        target = None if path == phase else NOTHING
        rate = middle(measurement.rounds[path][WITH], "capacity")
        name, note = f"`{path}`: a Pod without annotations, to no rule", f"({rate:,.0f} a second)"
        yield Figure(name, measurement.ratio(path), target, at_least=True, note=note)
