"""Policies on templates, and their bindings, as documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from policies.admissionpolicy.model import OWN_PREFIX, Binding, MatchResources, ParamRef, Policy
from policies.engine.match import LabelSelector
from policies.objects.workload import Workload

_OWN_VERSIONS: Mapping[str, str] = {"": "v1", "apps": "v1", "batch": "v1"}
_ACTIONS = ("Deny", "Warn", "Audit")


class Body(NamedTuple):
    """The expressions of a policy on templates: conditions and variables by name, validations with their messages."""

    conditions: tuple[tuple[str, str], ...]
    variables: tuple[tuple[str, str], ...]
    validations: tuple[tuple[tuple[str, str], ...], ...]


def policy_document(policy: Policy, name: str, body: Body, rows: Sequence[Workload]) -> Mapping[str, Any]:
    """A policy on the templates of some kinds."""
    constraints: dict[str, Any] = {"resourceRules": _rules(rows)}
    if selected := _selector(policy.match_constraints.namespace_selector):
        constraints["namespaceSelector"] = selected
    spec: dict[str, Any] = {"failurePolicy": policy.failure_policy}
    if policy.param_kind is not None:
        spec["paramKind"] = {"apiVersion": policy.param_kind.api_version, "kind": policy.param_kind.kind}
    spec["matchConstraints"] = constraints
    spec["matchConditions"] = [{"name": named, "expression": text} for named, text in body.conditions]
    if body.variables:
        spec["variables"] = [{"name": named, "expression": text} for named, text in body.variables]
    spec["validations"] = [dict(fields) for fields in body.validations]
    return {
        "apiVersion": policy.api_version,
        "kind": policy.kind,
        "metadata": _metadata(name, policy.labels, policy.annotations),
        "spec": spec,
    }


def binding_document(binding: Binding, policy: str, original: str) -> Mapping[str, Any]:
    """A binding of a policy on templates, with the parameters, actions and Namespaces of the original one."""
    suffix = policy.removeprefix(original)
    spec: dict[str, Any] = {
        "policyName": policy,
        "validationActions": [action for action in _ACTIONS if action in binding.validation_actions],
    }
    if binding.param_ref is not None:
        spec["paramRef"] = _param_ref(binding.param_ref)
    matched = None if binding.match_resources is None else _namespaces(binding.match_resources)
    if matched:
        spec["matchResources"] = matched
    return {
        "apiVersion": binding.api_version,
        "kind": binding.kind,
        "metadata": _metadata(f"{binding.name}{suffix}", binding.labels, binding.annotations),
        "spec": spec,
    }


def _metadata(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
    kept = {key: text for key, text in annotations.items() if not key.startswith(OWN_PREFIX)}
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    if kept:
        metadata["annotations"] = kept
    return metadata


def _rules(rows: Iterable[Workload]) -> list[dict[str, Any]]:
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row.resource)
    return [
        {
            "apiGroups": [group],
            "apiVersions": [_OWN_VERSIONS.get(group, "*")],
            "operations": ["CREATE", "UPDATE"],
            "resources": sorted(resources),
            "scope": "Namespaced",
        }
        for group, resources in groups.items()
    ]


def _namespaces(matched: MatchResources) -> dict[str, Any]:
    selected = _selector(matched.namespace_selector)
    return {"namespaceSelector": selected} if selected else {}


def _selector(selector: LabelSelector) -> dict[str, Any]:
    if not selector.requirements:
        return {}
    return {
        "matchExpressions": [
            {
                "key": requirement.key,
                "operator": requirement.operator,
                **({"values": list(requirement.values)} if requirement.values else {}),
            }
            for requirement in selector.requirements
        ]
    }


def _param_ref(reference: ParamRef) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if reference.name:
        shown["name"] = reference.name
    if reference.namespace:
        shown["namespace"] = reference.namespace
    if reference.selector is not None:
        shown["selector"] = _selector(reference.selector)
    return {**shown, "parameterNotFoundAction": reference.parameter_not_found_action}
