"""Policies on Pods as others have them, as documents with bindings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from webhook.cli.output import to_yaml

_FILE = Path(__file__).with_suffix(".yaml")
_API = "admissionregistration.k8s.io/v1"
PARAMETERS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "registries", "namespace": "default"},
    "data": {"registries": "registry.example.com/,quay.io/"},
}


def text() -> str:
    """All policies with their bindings and parameters, as a file."""
    return (
        "---\n".join(to_yaml(document) for rule in rules() for document in documents(rule))
        + "---\n"
        + to_yaml(PARAMETERS)
    )


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
