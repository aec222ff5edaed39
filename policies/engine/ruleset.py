"""The rules in force, in order. A rule set is immutable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from policies.engine.request import AdmissionRequest, Target
from policies.engine.rule import Names, Phase, PolicyException, Rule, Screener
from policies.engine.safety import Safety
from policies.engine.violation import NO_HELP, Help

# A cluster with many custom resources serves some hundred resources, each with a few subresources and four operations.
MEMORY = 10_000
NOTHING_SPARED = Safety()


class Turn(NamedTuple):
    """The rules that run for a request. screens: names of those that are judged together; alone: the others."""

    rules: tuple[Rule, ...]
    screens: tuple[tuple[Screener, Names], ...]
    alone: tuple[Rule, ...]
    names: Names


class RuleSet:
    """Rules in the order in which they run, their exceptions, and the requests that most of them spare.

    help: where refusals are explained. screeners: those of its rules.

    A reload replaces the whole rule set. Raises ValueError if two rules have the same name.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        exceptions: Iterable[PolicyException] = (),
        safety: Safety = NOTHING_SPARED,
        help: Help = NO_HELP,
    ) -> None:
        self.rules = tuple(rule for rule in rules if rule.action != "off")
        self.exceptions = tuple(exceptions)
        self.safety = safety
        self.help = help
        for name, times in Counter(rule.name for rule in self.rules).items():
            if times > 1:
                raise ValueError(f"two rules are called {name!r}; names must be unique")
        self.screeners = tuple({rule.screener: None for rule in self.rules if rule.screener is not None})
        self._cache: dict[tuple[str, ...], tuple[Turn, Turn]] = {}

    def groups(self, phase: Phase) -> frozenset[str]:
        """The groups of hooks in a phase: the names that may follow `/mutate/` or `/validate/`."""
        return frozenset(hook.group for rule in self.rules for hook in rule.hooks if hook.phase == phase)

    def reads(self, phase: Phase, group: str | None) -> frozenset[str]:
        """The paths that rules read in objects at `/<phase>/<group>`; without a group, at `/<phase>`."""
        asked = (
            rule.reads
            for rule in self.rules
            if any(hook.phase == phase and group in (None, hook.group) for hook in rule.hooks)
        )
        return frozenset().union(*asked)

    def turn(self, phase: Phase, request: AdmissionRequest, group: str | None = None) -> Turn:
        """The rules that run for a request: those of `select`, or fewer if the request is spared."""
        turn, spared = self._match(phase, request, group)
        if len(spared.rules) < len(turn.rules) and self.safety.spares(request):
            return spared
        return turn

    def select(self, phase: Phase, request: Target, group: str | None = None) -> tuple[Rule, ...]:
        """The rules whose hooks match the request, in one group or in all."""
        return self._match(phase, request, group)[0].rules

    def _match(self, phase: Phase, request: Target, group: str | None) -> tuple[Turn, Turn]:
        """The turn for a request, and the one for requests that most rules spare.

        Matching depends only on a few short strings, so its results are cached. The cost of a request grows with the
        rules that match it, not with all rules.
        """
        target, sub = request.resource, request.sub_resource
        key = (phase, group or "", request.operation, target.group, target.version, target.resource, sub)
        match = self._cache.get(key)
        if match is None:
            matching = [
                (rule, hook)
                for rule in self.rules
                for hook in rule.hooks
                if hook.phase == phase and group in (None, hook.group)
                if any(resource.matches(request) for resource in hook.resources)
            ]
            everywhere = (rule for rule, hook in matching if hook.everywhere)
            match = _turn(rule for rule, _ in matching), _turn(everywhere)
            if len(self._cache) < MEMORY:
                self._cache[key] = match
        return match


def _turn(matching: Iterable[Rule]) -> Turn:
    rules, together = tuple(dict.fromkeys(matching)), dict[Screener, list[str]]()
    for rule in rules:
        if rule.screener is not None:
            together.setdefault(rule.screener, []).append(rule.name)
    screens = tuple((screener, Names(names)) for screener, names in together.items())
    alone = tuple(rule for rule in rules if rule.screener is None)
    return Turn(rules, screens, alone, Names(rule.name for rule in rules))
