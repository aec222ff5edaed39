"""Policies and bindings from decoded and validated documents, with the defaults of the API server filled in.

Source: SetDefaults_* in kubernetes' pkg/apis/admissionregistration/v1/defaults.go. A validation's reason has no default
there; an absent one acts as Invalid (k8s.io/apiserver's pkg/admission/plugin/policy/validating/validator.go).
"""

from __future__ import annotations

from typing import Any

from policies.admissionpolicy.documents.check import Values
from policies.admissionpolicy.documents.document import Document, Path
from policies.admissionpolicy.documents.problem import show
from policies.admissionpolicy.model import (
    AuditAnnotation,
    Binding,
    Expression,
    MatchResources,
    MutationExpression,
    NamedExpression,
    NamedRule,
    Origin,
    ParamKind,
    ParamRef,
    Policy,
    Validation,
)
from policies.engine.match import LabelSelector, SelectorRequirement


def policy(value: Values, document: Document) -> Policy:
    """The policy that a valid document describes."""
    spec = value["spec"]
    kind = spec.get("paramKind")
    return Policy(
        **_head(value, document),
        param_kind=None if kind is None else ParamKind(api_version=kind["apiVersion"], kind=kind["kind"]),
        match_constraints=_match_resources(spec["matchConstraints"]),
        match_conditions=tuple(
            NamedExpression(name=item["name"], expression=_expression(document, "matchConditions", index, "expression"))
            for index, item in enumerate(spec.get("matchConditions", ()))
        ),
        variables=tuple(
            NamedExpression(name=item["name"], expression=_expression(document, "variables", index, "expression"))
            for index, item in enumerate(spec.get("variables", ()))
        ),
        validations=tuple(_validation(item, index, document) for index, item in enumerate(spec.get("validations", ()))),
        audit_annotations=tuple(
            AuditAnnotation(
                key=item["key"], value_expression=_expression(document, "auditAnnotations", index, "valueExpression")
            )
            for index, item in enumerate(spec.get("auditAnnotations", ()))
        ),
        mutations=tuple(_mutation(item, index, document) for index, item in enumerate(spec.get("mutations", ()))),
        failure_policy=spec.get("failurePolicy", "Fail"),
        reinvocation_policy=spec.get("reinvocationPolicy", ""),
    )


def binding(value: Values, document: Document) -> Binding:
    """The binding that a valid document describes."""
    spec = value["spec"]
    return Binding(
        **_head(value, document),
        policy_name=spec["policyName"],
        param_ref=_param_ref(spec["paramRef"]) if "paramRef" in spec else None,
        match_resources=_match_resources(spec["matchResources"]) if "matchResources" in spec else None,
        validation_actions=frozenset(spec.get("validationActions", ())),
    )


def selector(value: Values) -> LabelSelector:
    """The selector that a value describes. matchLabels become requirements, sorted by their keys."""
    labels = [SelectorRequirement(key, "In", (label,)) for key, label in sorted(value.get("matchLabels", {}).items())]
    requirements = [
        SelectorRequirement(item["key"], item["operator"], tuple(item.get("values", ())))
        for item in value.get("matchExpressions", ())
    ]
    return LabelSelector((*labels, *requirements))


def _head(value: Values, document: Document) -> dict[str, Any]:
    metadata = value["metadata"]
    return {
        "kind": value["kind"],
        "name": metadata["name"],
        "annotations": metadata.get("annotations", {}),
        "labels": metadata.get("labels", {}),
        "api_version": value["apiVersion"],
        "origin": Origin(file=document.name, line=document.line),
    }


def _expression(document: Document, *steps: str | int) -> Expression:
    path: Path = ("spec", *steps)
    line, column = document.place(path)
    text = document.value
    for step in path:
        text = text[step]
    return Expression(text=text, path=show(path), file=document.name, line=line, column=column)


def _validation(value: Values, index: int, document: Document) -> Validation:
    has_message = bool(value.get("messageExpression"))
    return Validation(
        expression=_expression(document, "validations", index, "expression"),
        message=value.get("message", ""),
        message_expression=_expression(document, "validations", index, "messageExpression") if has_message else None,
        reason=value.get("reason", "Invalid"),
    )


def _mutation(value: Values, index: int, document: Document) -> MutationExpression:
    field = "jsonPatch" if value["patchType"] == "JSONPatch" else "applyConfiguration"
    expression = _expression(document, "mutations", index, field, "expression")
    return MutationExpression(patch_type=value["patchType"], expression=expression)


def _match_resources(value: Values) -> MatchResources:
    return MatchResources(
        resource_rules=tuple(map(_rule, value.get("resourceRules", ()))),
        exclude_resource_rules=tuple(map(_rule, value.get("excludeResourceRules", ()))),
        namespace_selector=selector(value.get("namespaceSelector", {})),
        object_selector=selector(value.get("objectSelector", {})),
        match_policy=value.get("matchPolicy", "Equivalent"),
    )


def _rule(value: Values) -> NamedRule:
    return NamedRule(
        resource_names=tuple(value.get("resourceNames", ())),
        api_groups=tuple(value["apiGroups"]),
        api_versions=tuple(value["apiVersions"]),
        operations=tuple(value["operations"]),
        resources=tuple(value["resources"]),
        scope=value.get("scope", "*"),
    )


def _param_ref(value: Values) -> ParamRef:
    return ParamRef(
        name=value.get("name", ""),
        namespace=value.get("namespace", ""),
        selector=selector(value["selector"]) if "selector" in value else None,
        parameter_not_found_action=value["parameterNotFoundAction"],
    )
