"""What is served now, and whether it may be: one reference to the rules, swapped whole, and readiness with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from policies.cel.library.authorizer import Answer, Check
from policies.facts import Facts
from policies.rule import Phase
from policies.ruleset import RuleSet
from webhook.review import Decoder

# A gate tells why the service is not ready, or nothing.
Gate = Callable[[], Iterable[str]]


class Resolver(Protocol):
    """Fetches a fact that a rule asked for and that was not at hand."""

    async def read_namespace(self, name: str, seconds: float) -> None:
        """Bring the labels of a Namespace into the facts within some seconds. Raises FactUnavailable."""
        ...

    async def review(self, check: Check, seconds: float) -> Answer:
        """The answer to an authorization check, an errored one where it cannot be had."""
        ...


class Served:
    """Rules, the decoder made for them and the facts that they may ask for: all that one review needs."""

    def __init__(self, ruleset: RuleSet, facts: Callable[[], Facts], resolver: Resolver | None = None) -> None:
        self.ruleset = ruleset
        self.decoder = Decoder(ruleset.reads)
        self.facts = facts
        self.resolver = resolver
        self.routes = dict(_routes(ruleset))


def _routes(ruleset: RuleSet) -> Iterator[tuple[str, tuple[Phase, str | None]]]:
    """Every path with the phase and the group of rules that it stands for; no group is all rules."""
    phases: tuple[Phase, ...] = ("mutate", "validate")
    for phase in phases:
        yield f"/{phase}", (phase, None)
        yield from ((f"/{phase}/{group}", (phase, group)) for group in ruleset.groups(phase))


class State:
    """The one thing that changes while the service runs. A handler reads `served` once per review."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.draining = False
        self.in_flight = 0
        self._gates: dict[str, Gate] = {}

    def add_gate(self, name: str, gate: Gate) -> None:
        """Make readiness depend on something."""
        self._gates[name] = gate

    def unready(self) -> list[str]:
        """Why the service is not ready, a line for each reason; empty when it is."""
        reasons = [f"{name}: {reason}" for name, gate in self._gates.items() for reason in gate()]
        return ["draining: the service is shutting down", *reasons] if self.draining else reasons
