"""Exceptions as documents: `kind: PolicyException`, read as strictly as policies are.

The kind is the service's own, so that Kubernetes has messages only for fields in general.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from policies.admissionpolicy.builtin.table import served_resources
from policies.admissionpolicy.documents.document import (
    Document,
    Path,
    Problem,
    Report,
    Spot,
    duplicate,
    invalid,
    not_found,
    required,
)
from policies.admissionpolicy.documents.fields import EXCEPTION_GLOBS
from policies.admissionpolicy.documents.validation import (
    NAME_HINT,
    check_format,
    check_needed,
    check_selector,
    check_written,
)
from policies.engine.match import LabelSelector
from policies.engine.rule import PolicyException
from policies.golang.strconv import trimmed
from policies.kubernetes.name import dns_subdomain
from policies.kubernetes.spelling import closest, did_you_mean
from policies.objects.workload import BUILT_IN

GROUP, VERSION, KIND = "cks-admission.dev", "v1", "PolicyException"
SOON = 14
"""Days before the end of an exception when warnings begin: time to fix what the exception is for."""

_UNTIL_HINT = "write the last day (UTC) on which it holds, as 2026-12-31"
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class WrittenException:
    """An exception and the document that contains it."""

    value: PolicyException
    document: Document

    def unknown(self, known: Collection[str]) -> Sequence[Problem]:
        """A problem for each unknown rule in the exception. `known`: the names of all rules and policies."""
        report = Report(self.document)
        for index, name in enumerate(self.value.rules):
            if name not in known:
                hint = did_you_mean(name, known, f"there are {', '.join(known)}")
                Spot(report).child("spec", "policies", index).fault(not_found(name), hint)
        return report.problems


def is_meant(group: str, kind: str) -> bool:
    """Whether a document is an exception, or is probably intended as one and would otherwise be overlooked."""
    return group == GROUP or (kind == KIND and (not group or bool(closest(group, [GROUP]))))


def validate(top: Spot) -> None:
    """Note all problems of a decoded document."""
    metadata, spec = top.child("metadata"), top.child("spec")
    if check_needed(metadata.child("name"), "name the exception: answers and metrics show it"):
        check_format(metadata.child("name"), dns_subdomain, NAME_HINT)
    if metadata.child("namespace").value:
        metadata.child("namespace").warn("an exception is in no namespace", "write it to spec.match.namespaces")
    _policies(spec.child("policies"))
    check_written(spec.child("reason"), "say why, best with a ticket: the audit log shows it")
    if check_needed(spec.child("until"), _UNTIL_HINT):
        _until(spec.child("until"))
    for name in EXCEPTION_GLOBS:
        for glob in spec.child("match", name).items():
            if not glob.value:
                glob.fault(required("an empty glob matches nothing"), "write a name, or * for all")
    _kinds(spec.child("match", "kinds"))
    check_selector(spec.child("match", "objectSelector"))


def build(value: Mapping[str, Any]) -> PolicyException:
    """The exception that a valid document describes."""
    spec = value["spec"]
    match = spec.get("match", {})
    return PolicyException(
        name=value["metadata"]["name"],
        rules=tuple(spec["policies"]),
        reason=trimmed(spec["reason"]),
        until=date.fromisoformat(spec["until"]),
        **{name: tuple(match.get(name, ())) for name in EXCEPTION_GLOBS},
        object_selector=LabelSelector.of(match.get("objectSelector", {})),
    )


def places(value: Mapping[str, Any]) -> Sequence[Path]:
    """The fields of a decoded document at which problems are noted later."""
    policies = value.get("spec", {}).get("policies", ())
    return ("spec", "until"), *(("spec", "policies", index) for index in range(len(policies)))


def warn(exception: PolicyException, top: Spot, today: date) -> None:
    """Warn that an exception has ended or will soon. It is not an error: a date must not make documents unusable."""
    spot, days = top.child("spec", "until"), (exception.until - today).days
    if days < 0:
        spot.warn(f"ended on {exception.until}: it lets nothing pass", "delete it, or write a later day")
    elif days <= SOON:
        when = {0: "today", 1: "tomorrow"}.get(days, f"in {days} days")
        spot.warn(f"ends {when}: nothing passes by it after {exception.until}", "fix what it is for, or extend it")


def _policies(spot: Spot) -> None:
    if not spot.value:
        spot.fault(required(), "name the policies or built-in rules that it is an exception from")
    for index, name in enumerate(spot.items()):
        if not name.value:
            name.fault(required(), "write the name of a policy or built-in rule")
        elif name.value in spot.value[:index]:
            name.fault(duplicate(name.value), "name each once")


def _until(spot: Spot) -> None:
    if not _DATE.fullmatch(spot.value):  # fromisoformat also accepts weeks, and dates without dashes
        spot.fault(invalid(spot.value, "must be a date: YYYY-MM-DD"), _UNTIL_HINT)
        return
    try:
        date.fromisoformat(spot.value)
    except ValueError as error:
        spot.fault(invalid(spot.value, f"is not a calendar date: {error}"), _UNTIL_HINT)


def _kinds(spot: Spot) -> None:
    """Warn of a resource in place of a kind, and of a workload without its group, for that means the core group."""
    resources = {each.name: each.kind for each in served_resources() if "/" not in each.name}
    for below in spot.items():
        kind = below.value
        if (meant := resources.get(kind.partition(".")[0])) is not None:
            hint = f"did you mean {f'{meant.kind}.{meant.group}'.rstrip('.')}?"
            below.warn(f"{kind} is a resource, and no kind: it matches nothing", hint)
        group = next((row.group for row in BUILT_IN if row.kind == kind and row.group in ("apps", "batch")), "")
        if group:
            hint = f"did you mean {kind}.{group}?"
            below.warn(f"there is no {kind} in the core group: it matches nothing", hint)
