"""The API server's answers where the service's wording differs: statuses, warnings, audit annotations.

Sources: of k8s.io/apiserver's pkg/admission/plugin/policy validating/dispatcher.go and generic/policy_dispatcher.go;
pkg/endpoints/filters/warning.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admissionpolicy.evaluation import texts
from policies.golang.strconv import quote
from policies.kubernetes.encoding import to_json

if TYPE_CHECKING:
    from policies.admissionpolicy.evaluation.result import Finding, Result

FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
"""The audit annotation with the first failure of a binding with the action Audit."""


def forbidden(group: str, resource: str, name: str, message: str) -> str:
    """The whole message of a refusal: the object, then the reason (apierrors.NewForbidden).

    `name` is the request's, else the object's name or generateName, else `Unknown`.
    """
    what = f"{resource}.{group}" if group else resource
    return f"{what} {quote(name)} is forbidden: {message}"


def warning(finding: Finding) -> str:
    """The warning of a validation that failed under the action Warn."""
    return texts.warning(finding.policy, finding.binding, finding.message)


def warnings(result: Result) -> tuple[str, ...]:
    """All warnings, of any length."""
    return tuple(warning(finding) for finding in result.findings if "Warn" in finding.actions)


def annotation(finding: Finding) -> str:
    """The value of FAILURE_ANNOTATION."""
    failure = {
        "message": finding.message,
        "policy": finding.policy,
        "binding": finding.binding,
        "expressionIndex": finding.index,
        "validationActions": [action for action in ("Deny", "Warn", "Audit") if action in finding.actions],
    }
    return to_json([failure])


def audit_annotations(result: Result) -> dict[str, str]:
    """The audit annotations, with the first of several failures."""
    failures = [annotation(finding) for finding in result.findings if "Audit" in finding.actions]
    published = {key: texts.joined(values) for key, values in result.published.items()}
    return published | ({FAILURE_ANNOTATION: failures[0]} if failures else {})
