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
NONE, PACKS, FEW, TWENTY = "no policies", "packs", "3 policies", "20 policies"
MATCHING, SHIPPED = f"{policysets.MATCHING} policies", "packs and 20 policies"
MANY = f"packs and {policysets.MANY:,} policies, of which 20 on Pods"
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
    """rounds: samples by server. refusals: of some policies."""

    rounds: Rounds
    refusals: Sequence[Sample]

    def ratio(self, name: str, to: str, field: str = "capacity") -> float:
        """The ratio of one server to another, the median of the rounds' ratios."""
        pairs = zip(self.rounds[name], self.rounds[to], strict=True)
        return median(one.figure(field) / other.figure(field) for one, other in pairs)


def measure(directory: Path, rounds: int, seconds: float, say: Callable[[str], None]) -> Comparison:
    """Run the rounds. directory: where the certificate is. Raises LoadError, ProcessError or NoCoresError."""
    server_core, load_core = cores()
    sent = body(PATH, REAL)
    samples: dict[str, list[Sample]] = {name: [] for name in (ECHO, NONE, PACKS, FEW, TWENTY, MATCHING, SHIPPED, MANY)}
    with ExitStack() as stack:
        stack.enter_context(pinned(load_core))
        running = {ECHO: stack.enter_context(servers.echo(directory, cores={server_core}))}
        for name, paths in sets(directory):
            options = policysets.options(paths)
            running[name] = stack.enter_context(servers.service(directory, *options, cores={server_core}))
        for name in (FEW, TWENTY, MATCHING, SHIPPED, MANY):
            _check_judged(running[name], sent)
        refused = sent.replace(ALLOWED, FOREIGN).replace(*UNLABELLED)
        refusing, refusals = running[SHIPPED], list[Sample]()
        _check_findings(refusing, refused)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for name in sorted(samples, key=list(samples).index, reverse=number % 2 == 1):
                listening = running[name]
                samples[name].append(drive(listening.port, PATH, sent, listening.server, seconds))
            refusals.append(drive(refusing.port, PATH, refused, refusing.server, seconds, refused=True))
    return Comparison(samples, refusals)


def sets(directory: Path) -> Iterator[tuple[str, Sequence[Path]]]:
    """Make the directories of each set, and return them."""
    few, twenty = policysets.few(directory / "few"), policysets.twenty(directory / "twenty")
    more = policysets.matching(directory / "matching", policysets.MATCHING - len(policysets.FEW))
    yield NONE, []
    yield PACKS, [policysets.PACKS]
    yield FEW, [few]
    yield TWENTY, [twenty]
    yield MATCHING, [more, few]
    yield SHIPPED, [policysets.PACKS, twenty]
    yield MANY, [policysets.PACKS, policysets.thousand(directory / "thousand")]


def _check_judged(listening: Listening, sent: bytes) -> None:
    """Raise LoadError unless policies judge the Pod, and it passes all of them.

    A Pod with an image from another registry has to be refused, which shows that the policies are in force.
    """
    passed, refused = (answer(listening.port, content) for content in (sent, sent.replace(ALLOWED, FOREIGN)))
    judged: Mapping[str, str] = passed.get("auditAnnotations", {})
    if not passed["allowed"] or set(judged.values()) != {"admit"}:
        raise LoadError(f"the Pod does not pass all policies: {passed}")
    if not refused.get("auditAnnotations", {}).get(f"{policysets.PREFIX}registry", "").startswith("deny"):
        raise LoadError(f"a Pod with images from elsewhere is not refused: {refused}")


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
    """The ratios of each set to the echo, and what one policy more and a refusal cost."""
    for name, samples in comparison.rounds.items():
        rate, p99 = middle(samples, "capacity"), middle(samples, "p99") * 1e3
        if name == ECHO:
            yield Figure("the echo: reviews a second", rate)
            yield Figure("the echo: p99", p99, unit=" ms")
            continue
        target, note = TO_ECHO.get(name), f"({rate:,.0f} a second)"
        yield Figure(f"{name}: to the echo", comparison.ratio(name, ECHO), target, at_least=True, note=note)
        yield Figure(f"{name}: p99, to the echo", comparison.ratio(name, ECHO, "p99"), note=f"({p99:.1f} ms)")
    more = policysets.MATCHING - len(policysets.FEW)
    few, many = (middle(comparison.rounds[name], "cpu") * 1e6 for name in (FEW, MATCHING))
    yield Figure("one more policy of three simple expressions", (many - few) / more, ONE_MORE_MICROSECONDS, unit=" µs")
    refusal = middle(comparison.refusals, "cpu") * 1e3
    yield Figure(f"refusal with {FINDINGS} findings or more", refusal, REFUSAL_MILLISECONDS, unit=" ms")
    ratio = comparison.ratio(MANY, SHIPPED)
    yield Figure(f"throughput with {policysets.MANY:,} policies, to 20", ratio, MANY_TO_SHIPPED, at_least=True)
