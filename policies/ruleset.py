"""The immutable, ordered set of rules that is in force."""

from __future__ import annotations

from collections.abc import Iterable

from policies.exception import PolicyException
from policies.request import AdmissionRequest
from policies.rule import Phase, Rule


class RuleSet:
    """Rules in the order in which they run, and the exceptions from them.

    A reload makes a new one and swaps it whole. Raises ValueError where two rules have one name.
    """

    def __init__(self, rules: Iterable[Rule], exceptions: Iterable[PolicyException] = ()) -> None:
        self.rules = tuple(rule for rule in rules if rule.action != "off")
        self.exceptions = tuple(exceptions)
        names = [rule.name for rule in self.rules]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules are called {name!r}; names must be unique")
        self._selected: dict[tuple[str, ...], tuple[Rule, ...]] = {}

    @property
    def reads(self) -> frozenset[str]:
        """The paths in an object that any rule looks at: the rest need not be decoded."""
        return frozenset().union(*(rule.reads for rule in self.rules))

    def groups(self, phase: Phase) -> frozenset[str]:
        """The groups of hooks in a phase: the names that may follow `/mutate/` or `/validate/`."""
        return frozenset(hook.group for rule in self.rules for hook in rule.hooks if hook.phase == phase)

    def select(self, phase: Phase, request: AdmissionRequest, group: str | None = None) -> tuple[Rule, ...]:
        """The rules whose hooks match the request, of one group or of all.

        Matching depends on a handful of short strings only, so its answers are remembered.
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
            found = tuple(rule for rule in self.rules if _has_hook(rule, phase, request, group))
            if len(self._selected) < MEMORY:
                self._selected[key] = found
        return found


# A cluster with many custom resources serves some hundred resources; each has a few subresources and four operations.
MEMORY = 10_000


def _has_hook(rule: Rule, phase: Phase, request: AdmissionRequest, group: str | None) -> bool:
    return any(
        hook.phase == phase
        and (group is None or hook.group == group)
        and any(resource.matches(request) for resource in hook.resources)
        for hook in rule.hooks
    )
