"""Exceptions: data that lets matching requests pass a rule, until a date and for a stated reason."""

from __future__ import annotations

from datetime import date

from msgspec import Struct

from policies.glob import matches
from policies.request import AdmissionRequest


class PolicyException(Struct, frozen=True):
    """Lets requests pass the named rules.

    Every list but `rules` is of globs, and an empty one matches everything: namespaces, kinds (`Pod`,
    `Deployment.apps`), names, users. until: the last day (UTC) on which it holds. reason: why, for whoever audits it.
    """

    rules: tuple[str, ...]
    reason: str
    until: date
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def covers(self, rule: str, request: AdmissionRequest, today: date) -> bool:
        """Whether the request may pass the rule today."""
        kind = request.kind.kind + (f".{request.kind.group}" if request.kind.group else "")
        return (
            rule in self.rules
            and today <= self.until
            and _fits(request.scope_namespace, self.namespaces)
            and _fits(kind, self.kinds)
            and _fits(request.name, self.names)
            and _fits(request.user_info.username, self.users)
        )


def _fits(value: str, globs: tuple[str, ...]) -> bool:
    """Whether one of the globs matches, or there are none."""
    return not globs or matches(value, globs)
