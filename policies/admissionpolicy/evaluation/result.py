"""The result of evaluating a policy with its bindings, in kube-apiserver's words.

Sources: of k8s.io/apiserver's pkg/admission/plugin/policy validating/dispatcher.go, validating/validator.go and
generic/policy_dispatcher.go; pkg/endpoints/filters/warning.go; pkg/admission/plugin/cel/activation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from policies.admissionpolicy.model import Expression, PolicyKind, Reason, ValidationAction
from policies.cel import explain
from policies.cel.values import Value
from policies.engine.violation import CODES, FORBIDDEN, Status
from policies.golang.strconv import quote, trimmed

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
MESSAGE_LIMIT = 5 * 1024
"""A messageExpression whose result has more bytes is not used."""
ANNOTATION_LIMIT = 10 * 1024
"""The value of an audit annotation is truncated to this many bytes."""


def denial_message(message: Value, static: str, expression: str) -> str:
    """The message for a validation that is false.

    `message`: the result of its messageExpression; None if it has none or it failed. It is used if it is a string of
    one line, not blank and not too long; otherwise the static message or, without one, the expression is used.
    """
    words = trimmed(message) if isinstance(message, str) else ""
    if "\n" in words or len(words.encode(errors="surrogatepass")) > MESSAGE_LIMIT:
        words = ""
    return words or trimmed(static) or f"failed expression: {trimmed(expression)}"


def warning_text(policy: str, binding: str, message: str) -> str:
    """The warning of a validation that fails under the action Warn."""
    return f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"


def annotation_value(value: str) -> str:
    """The value of an audit annotation, truncated to its limit."""
    encoded = value.encode(errors="surrogatepass")
    return value if len(encoded) <= ANNOTATION_LIMIT else encoded[:ANNOTATION_LIMIT].decode(errors="replace")


def joined_annotation(values: Iterable[str]) -> str:
    """The value of an audit annotation from several bindings or parameters, without duplicates."""
    return ", ".join(dict.fromkeys(values))


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
        """The reason and code of the refusal. Mutating policies refuse with 403, whatever the reason."""
        if self.policy_kind == "MutatingAdmissionPolicy" and self.kind != "internal":
            return Status(self.reason, FORBIDDEN.code)
        return Status(self.reason, CODES[self.reason])

    @property
    def native(self) -> str:
        """The API server's message for the refusal, without the object's name before it."""
        if self.kind == "internal":
            return self.message
        with_binding = f" with binding '{self.binding}'" if self.binding else ""
        denied = f"{with_binding} denied request: {self.message}"
        if self.policy_kind == "ValidatingAdmissionPolicy":
            return f"ValidatingAdmissionPolicy '{self.policy}'{denied}"
        return f"policy '{self.policy}'{denied}" if self.binding else f"policy {quote(self.policy)}{denied}"


class Result(Struct, frozen=True, kw_only=True):
    """The result of one policy for one request.

    findings: in the API server's order; it shows the first that denies. ignored: errors that the failurePolicy ignores,
    for metrics and logs. published: the values of audit annotations by their full keys.
    """

    findings: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()
    published: Mapping[str, tuple[str, ...]] = {}

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
