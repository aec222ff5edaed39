"""Policies and bindings that the API server refuses, with its text: a table of changes to documents that it accepts."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from policies.kubernetes.release import Release

_TABLE = Path(__file__).parent / "refused.yaml"
_RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
_GOOD: dict[str, dict[str, Any]] = {
    "ValidatingAdmissionPolicy": {
        "matchConstraints": {"resourceRules": [_RULE]},
        "validations": [{"expression": "true"}],
    },
    "ValidatingAdmissionPolicyBinding": {"policyName": "a", "validationActions": ["Deny"]},
    "MutatingAdmissionPolicy": {
        "matchConstraints": {"resourceRules": [_RULE]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/x'}]"}}],
    },
    "MutatingAdmissionPolicyBinding": {"policyName": "a"},
}


@dataclass(frozen=True)
class Case:
    """A document and the problems in it, empty if it is accepted. `served`: the test's API server serves the kind."""

    document: dict[str, Any]
    says: list[str]
    served: bool


def good(kind: str, version: str = "v1") -> dict[str, Any]:
    """A document of a kind that the API server accepts."""
    return {
        "apiVersion": f"admissionregistration.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": copy.deepcopy(_GOOD[kind]),
    }


def changed(document: dict[str, Any], change: dict[str, Any], removed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The document with other values at paths such as `spec.validations.0.message`."""
    for path in (*change, *removed):
        target: Any = document
        *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in parents:
            target = target[step]
        if path in change:
            target[last] = copy.deepcopy(change[path])
        else:
            del target[last]
    return document


def cases(release: Release) -> dict[str, Case]:
    """All cases by name, with what the API server of a release says. Where releases differ, the table names them."""
    table = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    found = {}
    for name, entry in table.items():
        version = entry.get("version", "v1")
        document = good(entry["kind"], version)
        removed = tuple(entry.get("remove", ()))
        says = entry["says"][release.name] if isinstance(entry["says"], dict) else entry["says"]
        found[name] = Case(changed(document, entry.get("set", {}), removed), says, version == "v1")
    return found | {name: Case(document, says, served=True) for name, (document, says) in _big().items()}


def _big() -> dict[str, tuple[dict[str, Any], list[str]]]:
    """The cases that exceed a limit, which are long."""
    conditions = [{"name": f"c{index}", "expression": "true"} for index in range(65)]
    annotations = [{"key": f"k{index}", "valueExpression": "'<'"} for index in range(21)]
    shown = ",".join(f'{{"Key":"k{index}","ValueExpression":"\'\\u003c\'"}}' for index in range(21))
    long_value = [{"key": "a", "valueExpression": f"'{'x' * 5119}'"}]
    text = f"'{'x' * 100_001}' == ''"
    words = "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit"
    big: dict[str, tuple[dict[str, Any], list[str]]] = {
        "annotation-size": (
            {"metadata.annotations": {"a": "x" * 262_144}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        "conditions-too-many": (
            {"spec.matchConditions": conditions},
            ["spec.matchConditions: Too many: 65: must have at most 64 items"],
        ),
        "audit-too-many": (
            {"spec.auditAnnotations": annotations},
            [f"spec.auditAnnotations: Invalid value: [{shown}]: must not have more than 20 auditAnnotations"],
        ),
        "audit-value-long": (
            {"spec.auditAnnotations": long_value},
            ["spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length"],
        ),
        "expression-long": (
            {"spec.validations": [{"expression": text}]},
            [f'spec.validations[0].expression: Invalid value: "{text}": {words}: size: 100009, limit 100000'],
        ),
    }
    return {name: (changed(good("ValidatingAdmissionPolicy"), change), says) for name, (change, says) in big.items()}


def without_own_words(text: str) -> str:
    """The text up to what has our own wording: a syntax error, an invalid pattern, a value of a wrong type."""
    text = re.sub(r"json: cannot unmarshal (\w+) into .*|expected \w+, got (\w+)", r"got \1\2", text, flags=re.DOTALL)
    for error in ("Syntax error: ", "error parsing regexp: "):
        head, found, _ = text.partition(error)
        text = head + found
    return text
