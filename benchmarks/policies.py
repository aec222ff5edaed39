"""The service with admission policies at /validate against the echo, in interleaved rounds, a process for each set."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from benchmarks import policysets, servers
from benchmarks.bodies import REAL, body
from benchmarks.load import LoadError, Sample, drive
from benchmarks.report import Figure
from benchmarks.servers import Listening
from benchmarks.speed import cores, middle, pinned

PATH = "/validate"
ECHO = "echo"
FEW, SHIPPED, MANY = "3 policies", "packs and 20 policies", f"packs and {policysets.MANY:,} policies"
MATCHING = f"{policysets.MATCHING} policies on Pods"
TO_ECHO = {FEW: 0.8, SHIPPED: 0.5, MATCHING: 0.3}
MANY_TO_SHIPPED = 0.9
ONE_MORE_MICROSECONDS = 4.0
REFUSAL_MILLISECONDS = 2.0
FINDINGS = 5
# A registry that no policy allows, so a Pod with an image from there has to be refused.
ALLOWED, FOREIGN = b'"registry.example.org/', b'"registry.example.net/'
# A label without which the Pod has to be refused, too.
UNLABELLED = b'"example.org/team"', b'"example.org/teams"'
SECONDS = 10

Rounds = Mapping[str, Sequence[Sample]]
"""The samples of each server, one per round."""


class Comparison(NamedTuple):
    """rounds: samples by server. asked: how many policies judged the Pod, by set. refusals: of some policies."""

    rounds: Rounds
    asked: Mapping[str, int]
    refusals: Sequence[Sample]

    def ratio(self, name: str, to: str, field: str = "capacity") -> float:
        """The ratio of one server to another, the median of the rounds' ratios."""
        pairs = zip(self.rounds[name], self.rounds[to], strict=True)
        return median(one.figure(field) / other.figure(field) for one, other in pairs)


def compare(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Comparison:
    """Run the rounds. directory: where the certificate is. Raises LoadError, ProcessError or NoCoresError."""
    server_core, load_core = cores()
    sent = body(PATH, REAL)
    samples: dict[str, list[Sample]] = {name: [] for name in (ECHO, FEW, SHIPPED, MATCHING, MANY)}
    with ExitStack() as stack:
        stack.enter_context(pinned(load_core))
        running = {ECHO: stack.enter_context(servers.echo(directory, cores={server_core}))}
        for name, paths in sets(directory):
            options = policysets.options(paths)
            running[name] = stack.enter_context(servers.service(directory, *options, cores={server_core}))
        asked = {name: _asked(listening, sent) for name, listening in running.items() if name != ECHO}
        refused = sent.replace(ALLOWED, FOREIGN).replace(*UNLABELLED)
        refusing, refusals = running[SHIPPED], list[Sample]()
        _check_findings(refusing, refused)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for name in sorted(samples, key=list(samples).index, reverse=number % 2 == 1):
                listening = running[name]
                samples[name].append(drive(listening.port, PATH, sent, listening.server, seconds))
            refusals.append(drive(refusing.port, PATH, refused, refusing.server, seconds, refused=True))
    return Comparison(samples, asked, refusals)


def sets(directory: Path) -> Iterator[tuple[str, Sequence[Path]]]:
    """Make the directories of each set, and return them."""
    yield FEW, [policysets.few(directory / "few")]
    yield SHIPPED, [policysets.PACKS, policysets.twenty(directory / "twenty")]
    yield (
        MATCHING,
        [policysets.matching(directory / "matching", policysets.MATCHING - len(policysets.FEW)), directory / "few"],
    )
    yield MANY, [policysets.PACKS, policysets.thousand(directory / "thousand")]


def _asked(listening: Listening, sent: bytes) -> int:
    """How many policies judge the Pod. Raises LoadError unless it passes all of them.

    A Pod with an image from another registry has to be refused, which shows that the policies are in force.
    """
    passed, refused = (answer(listening.port, content) for content in (sent, sent.replace(ALLOWED, FOREIGN)))
    judged: Mapping[str, str] = passed.get("auditAnnotations", {})
    if not passed["allowed"] or set(judged.values()) != {"admit"}:
        raise LoadError(f"the Pod does not pass all policies: {passed}")
    if not refused.get("auditAnnotations", {}).get(f"{policysets.PREFIX}registry", "").startswith("deny"):
        raise LoadError(f"a Pod with images from elsewhere is not refused: {refused}")
    return len(judged.keys() - {"labels", "tolerations"})


def _check_findings(listening: Listening, refused: bytes) -> None:
    """Raise LoadError unless the Pod is refused by enough policies."""
    judged = answer(listening.port, refused).get("auditAnnotations", {})
    count = sum(said.startswith("deny") for said in judged.values())
    if count < FINDINGS:
        raise LoadError(f"only {count} policies refuse the Pod: {judged}")


def answer(port: int, content: bytes) -> dict[str, Any]:
    """The response to one review. Raises LoadError if the answer has no response."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection("127.0.0.1", port, timeout=SECONDS, context=context)
    try:
        connection.request("POST", PATH, content, {"Content-Type": "application/json"})
        answered = connection.getresponse().read()
        response: dict[str, Any] = msgspec.json.decode(answered)["response"]
    except (OSError, ValueError, KeyError) as error:
        raise LoadError(f"no answer from port {port}: {error}") from error
    finally:
        connection.close()
    return response


def figures(comparison: Comparison) -> Iterator[Figure]:
    """The ratios with their targets."""
    for name, target in TO_ECHO.items():
        note = f"({comparison.asked[name]} asked)"
        yield Figure(f"{PATH} real, {name}, to echo", comparison.ratio(name, ECHO), target, at_least=True, note=note)
    more = policysets.MATCHING - len(policysets.FEW)
    one = (_microseconds(comparison, MATCHING) - _microseconds(comparison, FEW)) / more
    yield Figure("one more policy of three simple expressions", one, ONE_MORE_MICROSECONDS, unit=" us")
    refusal = middle(list(comparison.refusals), "cpu") * 1e3
    yield Figure(f"refusal with {FINDINGS} findings or more", refusal, REFUSAL_MILLISECONDS, unit=" ms")
    ratio = comparison.ratio(MANY, SHIPPED)
    note = f"({comparison.asked[MANY]} asked)"
    yield Figure(f"{PATH} real, {MANY}, to 20", ratio, MANY_TO_SHIPPED, at_least=True, note=note)


def _microseconds(comparison: Comparison, name: str) -> float:
    return middle(list(comparison.rounds[name]), "cpu") * 1e6


def table(comparison: Comparison) -> Iterator[str]:
    """The medians behind the ratios."""
    yield f"{'policies':<30}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'server':>9}{'to echo':>9}"
    for name, samples in comparison.rounds.items():
        rate, p50, p99, cpu, busy = (middle(list(samples), f) for f in ("rate", "p50", "p99", "cpu", "server_busy"))
        yield (
            f"  {name:<28}{rate:>12.0f}{p50 * 1e3:>9.2f}{p99 * 1e3:>9.2f}{cpu * 1e6:>9.0f}{busy:>9.0%}"
            f"{comparison.ratio(name, ECHO):>9.2f}"
        )


def as_json(comparison: Comparison) -> dict[str, Any]:
    """All figures, each round included."""
    rounds = {name: [sample._asdict() for sample in samples] for name, samples in comparison.rounds.items()}
    refusals = [sample._asdict() for sample in comparison.refusals]
    return {"asked": dict(comparison.asked), "rounds": rounds, "refusals": refusals}
