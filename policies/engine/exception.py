"""Exceptions: data that lets matching requests pass a rule, until a date and for a stated reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from msgspec import Struct

from policies.engine.match import EVERYTHING, LabelSelector, selects
from policies.engine.request import AdmissionRequest
from policies.engine.violation import printable
from policies.glob import matches


class PolicyException(Struct, frozen=True):
    """Lets requests pass the named rules; a policy is the rule of its name.

    Every list but `rules` is of globs, and an empty one matches everything: namespaces, kinds (`Pod`,
    `Deployment.apps`), names, users, groups of which the user is in one. All are about the object that is written: one
    for Pods says nothing of a Deployment, whatever is found in its template. object_selector: as the objectSelector of
    Kubernetes, met by the labels of the object or of the old object. until: the last day (UTC) on which it holds.
    reason: why, for whoever audits it. name: by which people find it.
    """

    name: str
    rules: tuple[str, ...]
    reason: str
    until: date
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    object_selector: LabelSelector = EVERYTHING

    def concerns(self, rule: str, request: AdmissionRequest) -> bool:
        """Whether it is about a rule and a request, whatever the day."""
        kind = request.kind.kind + (f".{request.kind.group}" if request.kind.group else "")
        user = request.user_info
        return (
            rule in self.rules
            and _fits((request.scope_namespace,), self.namespaces)
            and _fits((kind,), self.kinds)
            and _fits((request.name,), self.names)
            and _fits((user.username,), self.users)
            and _fits(user.groups, self.groups)
            and (not self.object_selector.requirements or selects(self.object_selector, request))
        )

    def holds(self, today: date) -> bool:
        """Whether it still lets requests pass."""
        return today <= self.until

    @property
    def grounds(self) -> str:
        """Which exception it is, until when and why, on one line."""
        return f"{self.name} until {self.until}: {self._why}"

    def ending(self, rule: str) -> str:
        """Says that it has ended, to a requester whom it would have let pass a rule."""
        return f'The exception "{self.name}" from {rule} ended on {self.until} ({self._why}).'

    @property
    def _why(self) -> str:
        return " ".join(printable(self.reason).split())


def longest(exceptions: Sequence[PolicyException], rule: str, request: AdmissionRequest) -> PolicyException | None:
    """The exception about a rule and a request that ends last, and the first of several."""
    if not exceptions:
        return None
    concerning = [exception for exception in exceptions if exception.concerns(rule, request)]
    return max(concerning, key=lambda exception: exception.until, default=None)


def _fits(values: Iterable[str], globs: tuple[str, ...]) -> bool:
    """Whether one of the globs matches one of the values, or there are no globs."""
    return not globs or any(matches(value, globs) for value in values)
