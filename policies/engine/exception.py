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
    """Lets matching requests pass the named rules. A policy counts as the rule of its name.

    All lists except `rules` hold globs, and an empty list matches everything. kinds: such as `Pod` or
    `Deployment.apps`. groups: the user must be in one of them. All lists are about the object that is written: an
    exception for Pods does not cover a Deployment, even if the violation is in its template. object_selector: like the
    objectSelector of Kubernetes, met by the labels of the object or of the old object. until: the last day (UTC) on
    which the exception holds. reason: for auditors. name: how messages call it.
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
        """Whether the exception covers a rule and a request, regardless of the date."""
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
        """Whether the exception has not ended."""
        return today <= self.until

    @property
    def grounds(self) -> str:
        """Name, last day and reason on one line."""
        return f"{self.name} until {self.until}: {self._why}"

    def ending(self, rule: str) -> str:
        """The message that the exception has ended, for a requester whom it would have covered."""
        return f'The exception "{self.name}" from {rule} ended on {self.until} ({self._why}).'

    @property
    def _why(self) -> str:
        return " ".join(printable(self.reason).split())


def longest(exceptions: Sequence[PolicyException], rule: str, request: AdmissionRequest) -> PolicyException | None:
    """The exception for a rule and a request that ends last; the first of several that end on that day."""
    if not exceptions:
        return None
    concerning = [exception for exception in exceptions if exception.concerns(rule, request)]
    return max(concerning, key=lambda exception: exception.until, default=None)


def _fits(values: Iterable[str], globs: tuple[str, ...]) -> bool:
    """Whether a glob matches one of the values, or there are no globs."""
    return not globs or any(matches(value, globs) for value in values)
