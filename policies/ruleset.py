"""The immutable, ordered set of rules that is in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from policies.exception import PolicyException
from policies.request import Target
from policies.rule import Hook, Phase, Rule

# A cluster with many custom resources serves some hundred resources; each has a few subresources and four operations.
MEMORY = 10_000


class Selection(NamedTuple):
    """The rules for a request, in their order, and the paths in an object that any of them looks at."""

    rules: tuple[Rule, ...]
    reads: frozenset[str]


class RuleSet:
    """Rules in the order in which they run, and the exceptions from them.

    A reload makes a new one and swaps it whole. Raises ValueError where two rules have one name.
    """

    def __init__(self, rules: Iterable[Rule], exceptions: Iterable[PolicyException] = ()) -> None:
        self.rules = tuple(rule for rule in rules if rule.action != "off")
        self.exceptions = tuple(exceptions)
        for name, times in Counter(rule.name for rule in self.rules).items():
            if times > 1:
                raise ValueError(f"two rules are called {name!r}; names must be unique")
        self._selected: dict[tuple[str, ...], Selection] = {}

    def groups(self, phase: Phase) -> frozenset[str]:
        """The groups of hooks in a phase: the names that may follow `/mutate/` or `/validate/`."""
        return frozenset(hook.group for rule in self.rules for hook in rule.hooks if hook.phase == phase)

    def route(self, phase: Phase, group: str | None) -> Selection:
        """The rules that a request to `/<phase>/<group>` may concern; without a group, those of the whole phase."""
        return _selection(rule for rule in self.rules if any(_is_of(hook, phase, group) for hook in rule.hooks))

    def select(self, phase: Phase, request: Target, group: str | None = None) -> Selection:
        """The rules whose hooks match the request, of one group or of all.

        Matching depends on a handful of short strings only, so its answers are remembered: what a request costs grows
        with the rules that match it, not with those that there are.
        """
        resource = request.resource
        key = (
            phase,
            group or "",
            request.operation,
            resource.group,
            resource.version,
            resource.resource,
            request.sub_resource,
        )
        found = self._selected.get(key)
        if found is None:
            found = _selection(rule for rule in self.rules if _has_hook(rule, phase, request, group))
            if len(self._selected) < MEMORY:
                self._selected[key] = found
        return found


def _selection(rules: Iterable[Rule]) -> Selection:
    found = tuple(rules)
    return Selection(found, frozenset().union(*(rule.reads for rule in found)))


def _is_of(hook: Hook, phase: Phase, group: str | None) -> bool:
    return hook.phase == phase and (group is None or hook.group == group)


def _has_hook(rule: Rule, phase: Phase, request: Target, group: str | None) -> bool:
    return any(
        _is_of(hook, phase, group) and any(resource.matches(request) for resource in hook.resources)
        for hook in rule.hooks
    )
