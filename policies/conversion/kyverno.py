"""Kyverno's policies: rules of a ClusterPolicy or Policy with `validate.cel`, and ValidatingPolicies.

Sources: api/kyverno/v1 and api/policies.kyverno.io of github.com/kyverno/kyverno; its own generation of
ValidatingAdmissionPolicies in pkg/admissionpolicy/builder.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from policies.admissionpolicy.documents.document import Path
from policies.admissionpolicy.model import DERIVE
from policies.conversion import filters
from policies.conversion.outcome import Conversion, Json, Notes, binding, in_namespace, policy

GROUP, NEW_GROUP = "kyverno.io", "policies.kyverno.io"
NOT_DONE = {
    "mutate": "a mutation: write a MutatingAdmissionPolicy",
    "generate": "this product makes no other objects",
    "verifyImages": "this product verifies no signatures of images",
}
OTHER_KINDS = {
    "MutatingPolicy": "a mutation: write a MutatingAdmissionPolicy; its fields have the same names",
    "NamespacedMutatingPolicy": "a mutation: write a MutatingAdmissionPolicy for the Namespace",
    "ImageValidatingPolicy": "this product verifies no signatures of images",
    "GeneratingPolicy": "this product makes no other objects",
    "DeletingPolicy": "this product deletes no objects",
    "CleanupPolicy": "this product deletes no objects",
    "ClusterCleanupPolicy": "this product deletes no objects",
    "PolicyException": "write a PolicyException of cks-admission.dev, which has an end and a reason",
}
_AUTOGEN = "pod-policies.kyverno.io/autogen-controllers"
_ONLY_CEL = ("pattern", "anyPattern", "deny", "foreach", "podSecurity", "manifests", "assert")
_SPECIFIC = ("context", "preconditions")
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def cluster_policy(value: Json) -> Conversion:
    """A policy and a binding for each rule with CEL."""
    notes, spec = Notes(), value.get("spec") or {}
    name, namespace = _metadata(value)
    for key in ("validationFailureActionOverrides", "webhookConfiguration.matchConditions"):
        if _below(spec, key):
            notes.lose("write a binding for each", "spec", *key.split("."))
    if spec.get("applyRules") == "One":
        notes.lose("all rules apply, not only the first that matches", "spec", "applyRules")
    if spec.get("admission") is False:
        notes.lose("it does not judge requests, so there is nothing to make", "spec", "admission")
        return Conversion(remarks=tuple(notes.remarks))
    rules = spec.get("rules") or ()
    objects: list[dict[str, Any]] = []
    origins: dict[tuple[int, Path], Path] = {}
    for index, rule in enumerate(rules):
        own = name if len(rules) == 1 else f"{name}-{_label(rule.get('name'), index)}"
        made = _rule(own, rule, spec, notes.at("spec", "rules", index), _derived(value))
        if made is None:
            continue
        cel = ("spec", "rules", index, "validate", "cel")
        origins |= {(len(objects), ("spec", key)): (*cel, _SAME.get(key, key)) for key in _CEL}
        origins[len(objects), ("spec", "matchConditions")] = ("spec", "rules", index, "celPreconditions")
        origins[len(objects), ()] = ("spec", "rules", index)
        more = in_namespace(namespace) if namespace else {}
        objects += [made, _bound(own, rule, spec, more)]
    return Conversion(tuple(objects), tuple(notes.remarks), origins)


_CEL = ("validations", "variables", "auditAnnotations", "paramKind")
_SAME = {"validations": "expressions"}


def _rule(name: str, rule: Json, spec: Json, notes: Notes, annotations: Json) -> dict[str, Any] | None:
    """The policy of a rule; None if it has no CEL, or matches nothing."""
    _leave(rule, notes)
    validate = rule.get("validate") or {}
    cel = validate.get("cel")
    if not cel:
        return None
    matched = filters.match(rule, notes)
    conditions = [
        {"name": _label(one.get("name"), index), "expression": str(one.get("expression") or "")}
        for index, one in enumerate(rule.get("celPreconditions") or ())
    ]
    if matched.condition:
        conditions.append({"name": "kyverno-match", "expression": matched.condition})
    if not matched.rules:
        return None
    webhook = spec.get("webhookConfiguration") or {}
    made = {
        "failurePolicy": webhook.get("failurePolicy") or spec.get("failurePolicy") or "Fail",
        "paramKind": cel.get("paramKind"),
        "matchConstraints": matched.constraints,
        "matchConditions": conditions,
        "variables": cel.get("variables"),
        "validations": [_validation(one, validate.get("message")) for one in cel.get("expressions") or ()],
        "auditAnnotations": cel.get("auditAnnotations"),
    }
    return policy(name, made, annotations)


def _leave(rule: Json, notes: Notes) -> None:
    """Note what of a rule is left."""
    for key, text in NOT_DONE.items():
        if rule.get(key):
            notes.lose(text, key)
    validate = rule.get("validate") or {}
    for key in _ONLY_CEL:
        if validate.get(key) is not None:
            notes.lose("only rules in CEL (validate.cel) can be turned", "validate", key)
    for key in _SPECIFIC if validate.get("cel") else ():
        if rule.get(key):
            notes.lose("JMESPath cannot be turned; write it in CEL as a matchCondition", key)
    if validate.get("failureActionOverrides"):
        notes.lose("write a binding for each", "validate", "failureActionOverrides")


def _validation(written: Json, message: str | None) -> dict[str, Any]:
    """A validation, with the message of its rule where it has none."""
    said = written.get("message") or written.get("messageExpression")
    return dict(written) if said or not message else {**written, "message": message}


def _bound(name: str, rule: Json, spec: Json, where: Json) -> dict[str, Any]:
    validate = rule["validate"]
    action = str(validate.get("failureAction") or spec.get("validationFailureAction") or "Audit")
    actions = ["Deny"] if action.lower() == "enforce" else ["Audit", "Warn"]
    return binding(name, name, actions, paramRef=validate["cel"].get("paramRef"), matchResources=dict(where))


def validating_policy(value: Json) -> Conversion:
    """A policy and its binding: the fields have the same names."""
    notes, spec = Notes(), value.get("spec") or {}
    name, namespace = _metadata(value)
    evaluation = spec.get("evaluation") or {}
    mode = evaluation.get("mode") or "Kubernetes"
    if mode != "Kubernetes":
        notes.lose(f"it judges {mode}, not requests to the API server", "spec", "evaluation", "mode")
    if (evaluation.get("admission") or {}).get("enabled") is False:
        notes.lose("it does not judge requests, so there is nothing to make", "spec", "evaluation", "admission")
    if notes.has_lost:
        return Conversion(remarks=tuple(notes.remarks))
    kept = ("matchConstraints", "matchConditions", "variables", "validations", "auditAnnotations")
    made = {"failurePolicy": spec.get("failurePolicy") or "Fail", **{key: spec.get(key) for key in kept}}
    controllers = ((spec.get("autogen") or {}).get("podControllers") or {}).get("controllers")
    annotations = {DERIVE: "false"} if controllers == [] else {}
    more = in_namespace(namespace) if namespace else {}
    actions: Sequence[str] = spec.get("validationActions") or ("Deny",)
    bound = binding(name, name, list(actions), matchResources=more)
    return Conversion((policy(name, made, annotations), bound), tuple(notes.remarks))


def _metadata(value: Json) -> tuple[str, str]:
    """The name, and the Namespace of a kind that is in one."""
    metadata = value.get("metadata") or {}
    is_in = value.get("kind") == "Policy" or str(value.get("kind")).startswith("Namespaced")
    return str(metadata.get("name") or ""), str(metadata.get("namespace") or "default") if is_in else ""


def _derived(value: Json) -> dict[str, str]:
    """The annotation that keeps a policy on Pods from the templates of workloads, where Kyverno's said so."""
    annotations = (value.get("metadata") or {}).get("annotations") or {}
    return {DERIVE: "false"} if annotations.get(_AUTOGEN) == "none" else {}


def _label(name: object, index: int) -> str:
    """A name that an object may have as a part of its own."""
    return _NAME.sub("-", str(name or f"rule-{index + 1}")).strip("-.").lower() or f"rule-{index + 1}"


def _below(value: Json, dotted: str) -> object:
    for key in dotted.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)  # type: ignore[assignment]
    return value
