"""Judges the same documents and requests through the library's public face."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cks_admission
from cks_admission import Request
from cluster.policycases.case import Json
from cluster.policycases.ours import Outcome, stable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cks_admission import Verdict
    from cluster.policycases.case import Ask, Case

Answer = tuple[int, str, str] | Json | None
"""Code, reason and text of a refusal, else the object that a mutating policy left."""


def answer(case: Case, ask: Ask, new: Json | None, old: Json | None, around: Sequence[Json]) -> Answer:
    """What the library says, with other documents around the policy."""
    request = Request(
        object=new,
        old_object=old,
        operation=ask.operation,
        resource=ask.kind.resource,
        subresource=ask.subresource,
        user=ask.user,
        groups=ask.groups,
        dry_run=ask.operation != "CONNECT",
    )
    return _answer(case, ask, cks_admission.evaluate(cks_admission.compile([*case.documents, *around]), request))


def _answer(case: Case, ask: Ask, verdict: Verdict) -> Answer:
    if not verdict.allowed:
        return verdict.code, verdict.reason, verdict.message
    return stable(dict(verdict.object or {})) if case.mutating and ask.operation not in ("DELETE", "CONNECT") else None


def native(outcome: Outcome) -> Answer:
    """What the API server said, in the same form."""
    if outcome.status is None:
        return outcome.object
    status = outcome.status
    causes = (status.get("details") or {}).get("causes") or [status]
    return status["code"], status["reason"], causes[0]["message"]
