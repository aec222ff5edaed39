"""The serving state: one reference to the current rules, which is swapped as a whole, and readiness with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

from policies.engine.facts import Facts
from policies.engine.interruption import Key
from policies.engine.request import AdmissionRequest, Target
from policies.engine.rule import POLICY_GROUPS, Phase
from policies.engine.ruleset import RuleSet
from webhook.http.readiness import Readiness
from webhook.http.review import Decoder, is_about, presumed_target, target

T = TypeVar("T")
# Up to this many rules, it does not pay to find out first which of them match. With the built-in rules it takes 4
# us more than it saves (docs/benchmarks.md).
FEW = 6
# Policies and rules change in one replica sooner than in another, so the API server may call paths that have no rules
# yet or any more. An error would then be a refusal if the failure policy is Fail.
GROUPS: Mapping[Phase, frozenset[str]] = {
    "mutate": frozenset({"daemonsets", "pods", "topology", POLICY_GROUPS["Fail"]}),
    "validate": frozenset({"daemonsets", "guard", "labels", "pods", "topologies", "topology", *POLICY_GROUPS.values()}),
}


class Resolver(Protocol):
    """Looks up the values of keys that are not in memory."""

    async def read(self, key: Key[T], seconds: float) -> T:
        """The value of a key, within a time limit. Raises FactUnavailable, and Missing if it does not exist."""


class Route:
    """A path: its phase, its group of rules (None: all of them), and how to decode its reviews.

    Only those parts of an object are decoded that the matching rules read. If there are few rules, it is cheaper not to
    find out which of them match.
    """

    def __init__(self, phase: Phase, group: str | None, ruleset: RuleSet) -> None:
        self.phase = phase
        self.group = group
        self._ruleset = ruleset
        rules, reads = ruleset.route(phase, group)
        self._few = len(rules) <= FEW
        self._all = Decoder(reads)
        self._decoders = {reads: self._all}

    def decode(self, body: bytes) -> AdmissionRequest:
        """The request of a review. Raises ReviewError."""
        if self._few:
            return self._all.decode(body)
        presumed = presumed_target(body)
        if presumed is not None:
            request = self._decoder(presumed).decode(body)
            if is_about(request, presumed):
                return request
        parsed = target(body)
        return (self._all if parsed is None else self._decoder(parsed)).decode(body)

    def _decoder(self, of: Target) -> Decoder:
        reads = self._ruleset.select(self.phase, of, self.group).reads
        decoder = self._decoders.get(reads)
        if decoder is None:
            decoder = self._decoders[reads] = Decoder(reads)
        return decoder


class Served:
    """Rules and facts: everything that a review needs. routes: by path."""

    def __init__(self, ruleset: RuleSet, facts: Facts, resolver: Resolver | None = None) -> None:
        self.ruleset = ruleset
        self.facts = facts
        self.resolver = resolver
        self.routes = dict(_routes(ruleset))


def _routes(ruleset: RuleSet) -> Iterator[tuple[str, Route]]:
    phases: tuple[Phase, ...] = ("mutate", "validate")
    for phase in phases:
        yield f"/{phase}", Route(phase, None, ruleset)
        for group in ruleset.groups(phase) | GROUPS[phase]:
            yield f"/{phase}/{group}", Route(phase, group, ruleset)


class ServingState(Readiness):
    """The only state that changes while the service runs. A handler reads `served` once per review."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.served = served
        self.in_flight = 0
