"""The API server's answers where the service's wording differs: statuses, warnings, audit annotations.

Sources: of k8s.io/apiserver's pkg/admission/plugin/policy validating/dispatcher.go and generic/policy_dispatcher.go;
pkg/endpoints/filters/warning.go.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from policies.admissionpolicy.evaluation.validator import warning_text
from policies.golang.strconv import quote
from policies.kubernetes.spelling import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.admissionpolicy.evaluation.validator import Finding, Result
    from policies.kubernetes.release import Release

FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
"""The audit annotation with the failures of bindings with the action Audit."""
FAILURES: Mapping[str, int] = {"1.36": 1}
"""How many failures of a request it has at most, by release; 50 in later ones (validating/dispatcher.go)."""


def forbidden(group: str, resource: str, name: str, message: str) -> str:
    """The whole message of a refusal: the object, then the reason (apierrors.NewForbidden).

    `name` is the request's, else the object's name or generateName, else `Unknown`.
    """
    what = f"{resource}.{group}" if group else resource
    return f"{what} {quote(name)} is forbidden: {message}"


def warning(finding: Finding) -> str:
    """The warning of a validation that failed under the action Warn."""
    return warning_text(finding.policy, finding.binding, finding.message)


def warnings(result: Result) -> tuple[str, ...]:
    """All warnings, of any length."""
    return tuple(warning(finding) for finding in result.findings if "Warn" in finding.actions)


def failures(findings: Iterable[Finding], release: Release) -> str:
    """The value of FAILURE_ANNOTATION for the failures of a request, in their order."""
    return to_json(list(map(_failure, islice(findings, FAILURES.get(release.name, 50)))))


def _failure(finding: Finding) -> Mapping[str, object]:
    return {
        "message": finding.message,
        "policy": finding.policy,
        "binding": finding.binding,
        "expressionIndex": finding.index,
        "validationActions": [action for action in ("Deny", "Warn", "Audit") if action in finding.actions],
    }


def audit_annotations(result: Result, release: Release) -> dict[str, str]:
    """The audit annotations that an API server of a release makes."""
    audited = [finding for finding in result.findings if "Audit" in finding.actions]
    published = {key: ", ".join(dict.fromkeys(values)) for key, values in result.published.items()}
    return published | ({FAILURE_ANNOTATION: failures(audited, release)} if audited else {})
