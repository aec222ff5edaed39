"""What policies say about a request, as kube-apiserver would say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from policies.admissionpolicy.evaluation import result
from policies.admissionpolicy.model import ValidationAction
from policies.cel.explanation.explain import Reason
from policies.cel.explanation.places import shown

_ACTIONS: tuple[ValidationAction, ...] = ("Deny", "Warn", "Audit")


class Cause(Struct, frozen=True):
    """A part of an expression that decided it. path: of the field that it reads, empty if it reads none."""

    path: str
    text: str

    def __str__(self) -> str:
        """`spec.replicas: object.spec.replicas <= 5 is false (object.spec.replicas is 7)`."""
        return f"{self.path}: {self.text}" if self.path else self.text


class Finding(Struct, frozen=True, kw_only=True):
    """A validation that is false, or something that failed.

    binding, params: names, empty if there is none. message: as the policy has it. actions: those of the binding, in the
    order of Kubernetes' documentation; none if the failurePolicy ignores an error. text, reason, code: the API server's
    refusal, should this be the first one. expression: the source of the expression; place: of it, as file:line:column.
    causes: the parts that decided.
    """

    policy: str
    binding: str
    params: str
    message: str
    actions: tuple[ValidationAction, ...]
    text: str
    reason: str
    code: int
    expression: str = ""
    place: str = ""
    causes: tuple[Cause, ...] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer to a request.

    code, reason, message: of the refusal, without the name of the object before it; 0 and empty if it is admitted.
    findings: in the API server's order, which refuses with the first whose actions have Deny. ignored: errors that the
    failurePolicy ignores. warnings: as kubectl prints them. annotations: for the audit log, by key. object: as the
    mutating policies left it. costs: of the validations of each policy that matched, of the 10,000,000 that one may
    cost; the highest, if it has several bindings or parameters.
    """

    allowed: bool
    code: int = 0
    reason: str = ""
    message: str = ""
    findings: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}
    object: Mapping[str, Any] | None = None
    costs: Mapping[str, int] = {}


def cause_of(reason: Reason) -> Cause:
    """A reason with its place as text."""
    return Cause("" if reason.place is None else shown(reason.place), reason.detail)


def finding_of(finding: result.Finding) -> Finding:
    """A finding with its texts."""
    source = finding.expression
    return Finding(
        policy=finding.policy,
        binding=finding.binding,
        params=finding.params,
        message=finding.message,
        actions=tuple(action for action in _ACTIONS if action in finding.actions),
        text=finding.native,
        reason=finding.status.reason,
        code=finding.status.code,
        expression="" if source is None else source.text,
        place="" if source is None else f"{source.file}:{source.line}:{source.column}",
        causes=tuple(map(cause_of, finding.reasons)),
    )
