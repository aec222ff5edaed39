"""Judges the same documents and requests through the library's public face."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from support.policies.nativeanswers import FAILURE_ANNOTATION

import cks_admission
from cks_admission import Request
from cluster.policycases.case import Json
from cluster.policycases.ours import Outcome, delivered, stable
from cluster.policycases.ours import request as asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cks_admission import Verdict
    from cluster.policycases.case import Ask, Case


def outcome(case: Case, ask: Ask, new: Json | None, old: Json | None, around: Sequence[Json]) -> Outcome:
    """What the library says, with other documents around the policy."""
    fields = asked(case.name, ask, "" if case.mutating else ((new or {}).get("metadata") or {}).get("name", ""))
    request = Request(
        object=new,
        old_object=old,
        operation=ask.operation,
        resource=f"{ask.kind.resource}.{ask.kind.version}.{ask.kind.group}",
        subresource=ask.subresource,
        name=fields["name"],
        namespace=fields["namespace"],
        user=ask.user,
        groups=ask.groups,
        extra=fields["userInfo"]["extra"],
        options=fields["options"],
        dry_run=fields["dryRun"],
    )
    verdict = cks_admission.evaluate(cks_admission.compile([*case.documents, *around]), request)
    return Outcome(
        None if verdict.allowed else _status(verdict.code, verdict.reason, verdict.message),
        _object(case, ask, verdict),
        delivered(verdict.warnings),
        dict(verdict.annotations),
    )


def reduced(native: Outcome) -> Outcome:
    """What the API server said, as far as the library says it: of the message the part without the object's name."""
    status = native.status
    causes = [] if status is None else (status.get("details") or {}).get("causes") or [status]
    return replace(
        native,
        status=None if status is None else _status(status["code"], status["reason"], causes[0]["message"]),
        annotations={key: value for key, value in native.annotations.items() if key != FAILURE_ANNOTATION},
    )


def _status(code: int, reason: str, message: str) -> Json:
    return {"code": code, "reason": reason, "message": message}


def _object(case: Case, ask: Ask, verdict: Verdict) -> Json | None:
    if not verdict.allowed or not case.mutating or ask.operation in ("DELETE", "CONNECT"):
        return None
    return stable(dict(verdict.object or {}))
