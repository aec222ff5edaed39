"""Policies for lint, from a few fields each, and the findings in them."""

from __future__ import annotations

from typing import Any

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.kubernetes.release import NEWEST, Release
from policies.lint.finding import LintFinding
from policies.lint.review import review

Json = dict[str, Any]
HEAD = {"apiVersion": "admissionregistration.k8s.io/v1"}
MESSAGE = "set the field to what the guide says"
DEPLOYMENTS: Json = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["UPDATE"],
    "resources": ["deployments"],
}
PODS: Json = {**DEPLOYMENTS, "apiGroups": [""], "resources": ["pods"]}


def policy(*validations: str | Json, rules: tuple[Json, ...] = (DEPLOYMENTS,), **fields: Any) -> Json:
    """A ValidatingAdmissionPolicy `p`; a validation is an expression, or all its fields."""
    given = [{"expression": each, "message": MESSAGE} if isinstance(each, str) else each for each in validations]
    metadata = {"name": "p", "annotations": fields.pop("annotations", {})}
    constraints = {"resourceRules": list(rules), **fields.pop("constraints", {})}
    variables = [{"name": name, "expression": text} for name, text in fields.pop("variables", {}).items()]
    conditions = [{"name": name, "expression": text} for name, text in fields.pop("conditions", {}).items()]
    spec = {"matchConstraints": constraints, "variables": variables, "matchConditions": conditions, **fields}
    return {**HEAD, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": {**spec, "validations": given}}


def binding(**fields: Any) -> Json:
    """A binding of the policy `p`."""
    spec = {"policyName": "p", "validationActions": ["Deny"], **fields}
    return {**HEAD, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": spec}


def reviewed(*documents: Json, release: Release = NEWEST) -> tuple[LintFinding, ...]:
    """All findings in documents, without the warnings from reading them."""
    files = [Document(value=each, name="p.yaml", places=lambda _: (1, 1)) for each in documents]
    loaded = read(files)
    assert not loaded.errors, [problem.text for problem in loaded.errors]
    return tuple(finding for finding in review(loaded, files, release) if finding.id != "doubtful")


def said(*documents: Json, release: Release = NEWEST) -> list[tuple[str, str, str]]:
    """The id, the field and the text of each finding."""
    return [(finding.id, finding.path, finding.message) for finding in reviewed(*documents, release=release)]
