"""The result of evaluating a policy with its bindings: a finding for each violation and each failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from policies.admissionpolicy.evaluation import texts
from policies.admissionpolicy.model import Expression, PolicyKind, Reason, ValidationAction
from policies.cel.explanation import explain
from policies.engine.violation import CODES, FORBIDDEN, Status

FindingKind = Literal["violation", "error", "misconfigured", "internal"]
"""A validation is false; an expression failed; policy or binding is misconfigured; a mutation's result is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violation, or an error that kept a policy from judging a request.

    message: exactly the API server's message after `denied request: `. binding: empty if the policy itself is
    misconfigured. index: that of the validation, else 0, as the API server numbers the decisions of an evaluation.
    expression: None if no expression is the cause. params: the name of the parameter object. actions: the consequences;
    empty if the failurePolicy ignores the error. reasons: the parts of the expression that decided, with places and
    values.
    """

    policy_kind: PolicyKind = "ValidatingAdmissionPolicy"
    policy: str
    binding: str = ""
    kind: FindingKind
    message: str
    reason: Reason | Literal["InternalError"] = "Invalid"
    actions: frozenset[ValidationAction] = frozenset()
    index: int = 0
    expression: Expression | None = None
    params: str = ""
    reasons: tuple[explain.Reason, ...] = ()

    @property
    def denies(self) -> bool:
        """Whether the finding refuses the request."""
        return "Deny" in self.actions

    @property
    def status(self) -> Status:
        """The reason and code of the refusal. Mutating policies refuse with 403, whatever the reason.

        Sources: validating/dispatcher.go and generic/policy_dispatcher.go, as in texts.
        """
        if self.policy_kind == "MutatingAdmissionPolicy" and self.kind != "internal":
            return Status(self.reason, FORBIDDEN.code)
        return Status(self.reason, CODES[self.reason])

    @property
    def native(self) -> str:
        """The API server's message for the refusal, without the object's name before it."""
        if self.kind == "internal":
            return self.message
        if self.policy_kind == "MutatingAdmissionPolicy":
            return texts.mutating_denial(self.policy, self.binding, self.message)
        return texts.validating_denial(self.policy, self.binding, self.message)


class Result(Struct, frozen=True, kw_only=True):
    """The result of one policy for one request.

    findings: in the API server's order; it shows the first that denies. ignored: errors that the failurePolicy ignores,
    for metrics and logs. published: the values of audit annotations by their full keys. skipped: binding names, with
    the reason why the binding did not judge the request.
    """

    findings: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()
    published: Mapping[str, tuple[str, ...]] = {}
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def denial(self) -> Finding | None:
        """The finding that the API server would show; None if none denies."""
        return next((finding for finding in self.findings if finding.denies), None)


NOTHING_FOUND = Result()
"""The result for most requests."""


def combined(results: Iterable[Result]) -> Result:
    """The combined result of several bindings, parameters or policies, in their order."""
    parts = tuple(results)
    if len(parts) == 1:
        return parts[0]
    values: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for key, published in part.published.items():
            values[key] = values.get(key, ()) + published
    return Result(
        findings=tuple(finding for part in parts for finding in part.findings),
        ignored=tuple(finding for part in parts for finding in part.ignored),
        published=values,
        skipped=tuple(skipped for part in parts for skipped in part.skipped),
    )


def result_of(findings: Iterable[Finding], published: Mapping[str, tuple[str, ...]] | None = None) -> Result:
    """The result with these findings. Findings without actions become ignored errors."""
    every = tuple(findings)
    if not (every or published):
        return NOTHING_FOUND
    return Result(
        findings=tuple(finding for finding in every if finding.actions),
        ignored=tuple(finding for finding in every if not finding.actions),
        published=published or {},
    )
