"""Policies on Pods as others have them, as documents with bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Loaded, read

_FILE = Path(__file__).with_suffix(".yaml")
_API = "admissionregistration.k8s.io/v1"
PARAMETERS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "registries", "namespace": "default"},
    "data": {"registries": "registry.example.com/,quay.io/"},
}


def rules() -> list[dict[str, Any]]:
    """The rules as they are written in the file."""
    loaded: list[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return loaded


def documents(rule: dict[str, Any], operations: tuple[str, ...] = ("CREATE", "UPDATE")) -> list[dict[str, Any]]:
    """The policy of a rule, and its binding."""
    name = rule["name"]
    spec: dict[str, Any] = {
        "failurePolicy": rule.get("failurePolicy", "Fail"),
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": [*operations], "resources": ["pods"]}
            ]
        },
        "matchConditions": [{"name": n, "expression": e} for n, e in rule.get("conditions", {}).items()],
        "variables": [{"name": n, "expression": e} for n, e in rule.get("variables", {}).items()],
        "validations": rule["validations"],
    }
    binding: dict[str, Any] = {"policyName": name, "validationActions": ["Deny"]}
    if rule.get("params"):
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
        binding["paramRef"] = {"name": name, "namespace": "default", "parameterNotFoundAction": "Deny"}
    return [
        {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": _API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    ]


def loaded(given: Iterable[Mapping[str, Any]]) -> Loaded:
    """Documents, read without problems."""
    result = read(Document(value=value, name="policies", places=lambda _: (1, 1)) for value in given)
    if result.problems:
        raise ValueError("\n".join(map(str, result.problems)))
    return result


def parameters(rule: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a rule, which have its name."""
    return {**PARAMETERS, "metadata": {"name": rule["name"], "namespace": "default"}}
