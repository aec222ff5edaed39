"""What is served now, and whether it may be: one reference to the rules, swapped whole, and readiness with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from policies.engine.facts import Facts
from policies.engine.lookup import Key
from policies.engine.request import AdmissionRequest, Target
from policies.engine.rule import POLICY_GROUPS, Phase
from policies.engine.ruleset import RuleSet
from webhook.http.review import Decoder, is_about, presumed_target, target

T = TypeVar("T")
# Rules of which it is not worth while to find out beforehand which match. With the five built-in ones that takes 4 us
# more than it saves, with the three that there were before, 11 us in place of 5 (docs/benchmarks.md).
FEW = 5
# Policies come and go, and rules are turned on and off, in one replica sooner than in another. The API server asks all
# of them where rules were or will be; an error would be a refusal where that is the failure policy.
GROUPS: Mapping[Phase, frozenset[str]] = {
    "mutate": frozenset({"daemonsets", "pods", "topology", POLICY_GROUPS["Fail"]}),
    "validate": frozenset({"daemonsets", "labels", "pods", "topologies", "topology", *POLICY_GROUPS.values()}),
}
# A gate tells why the service is not ready, or nothing.
Gate = Callable[[], Iterable[str]]


class Resolver(Protocol):
    """Finds the values of keys that are not at hand."""

    async def read(self, key: Key[T], seconds: float) -> T:
        """The value of a key, found within some seconds. Raises FactUnavailable, and Missing where it is not there."""


class Route:
    """A path: the phase and the group of rules that it stands for (None: all of them), and how reviews are read there.

    Of an object no more is decoded than the rules read that match the request. Where the rules are few, telling which
    these are costs more than it saves.
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
    """Rules, and the facts that they may ask for: all that one review needs. routes: by their paths."""

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


class ServingState:
    """The one thing that changes while the service runs. A handler reads `served` once per review."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.draining = False
        self.in_flight = 0
        self._gates: dict[str, Gate] = {}
        self._notes: dict[str, Gate] = {}

    def add_gate(self, name: str, gate: Gate) -> None:
        """Make readiness depend on something."""
        self._gates[name] = gate

    def add_note(self, name: str, note: Gate) -> None:
        """Let readiness tell of something for which nobody should be sent elsewhere."""
        self._notes[name] = note

    def notes(self) -> list[str]:
        """What is wrong although the service is ready, a line for each."""
        return [f"{name}: {reason}" for name, note in self._notes.items() for reason in note()]

    def unready(self) -> list[str]:
        """Why the service is not ready, a line for each reason; empty when it is."""
        reasons = [f"{name}: {reason}" for name, gate in self._gates.items() for reason in gate()]
        return ["draining: the service is shutting down", *reasons] if self.draining else reasons
