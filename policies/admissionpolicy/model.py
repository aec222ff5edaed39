"""Policies and bindings as values: documents after decoding, validation and defaults.

Names are those of the API in Python's spelling. Source: the Go types of k8s.io/api/admissionregistration/v1 (types.go).
An absent selector of matchConstraints becomes the empty one, which selects everything, as in the API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from policies.cel.syntax.source import Source
from policies.engine.match import EVERYTHING, LabelSelector

OWN_PREFIX = "cks-admission.dev/"
DERIVE = f"{OWN_PREFIX}derive"
LINT_IGNORE = f"{OWN_PREFIX}lint-ignore"
OWN_ANNOTATIONS = (DERIVE, LINT_IGNORE)
"""The annotations that this service reads: whether a policy applies to pod templates, and ids of ignored findings."""

PolicyKind = Literal["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"]
BindingKind = Literal["ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"]
FailurePolicy = Literal["Fail", "Ignore"]
MatchPolicy = Literal["Equivalent", "Exact"]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]
Scope = Literal["Cluster", "Namespaced", "*"]
ParameterNotFoundAction = Literal["Allow", "Deny"]
ValidationAction = Literal["Deny", "Warn", "Audit"]
Reason = Literal["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"]
PatchType = Literal["ApplyConfiguration", "JSONPatch"]
ReinvocationPolicy = Literal["Never", "IfNeeded"]


DENY: frozenset[ValidationAction] = frozenset({"Deny"})


class Origin(Struct, frozen=True, kw_only=True, rename="camel"):
    """The file of a document, and the line, from 1, on which it begins."""

    file: str
    line: int


class Expression(Struct, frozen=True, kw_only=True, rename="camel"):
    """A CEL expression and its place: the file, and the line and column, from 1, of its first character.

    text: as written, including white space around it. path: as the API server names the field.
    """

    text: str
    path: str
    file: str = "<input>"
    line: int = 1
    column: int = 1

    @property
    def source(self) -> Source:
        """The expression for the compiler, whose errors then name the place in the file."""
        return Source(self.text, self.file, self.line, self.column)


class ParamKind(Struct, frozen=True, kw_only=True, rename="camel"):
    """The kind of a policy's parameters. `api_version` is `v1` or `group/version`."""

    api_version: str
    kind: str


class NamedRule(Struct, frozen=True, kw_only=True, rename="camel"):
    """Operations on resources, optionally only on some names (empty: on all)."""

    resource_names: tuple[str, ...] = ()
    api_groups: tuple[str, ...]
    api_versions: tuple[str, ...]
    operations: tuple[Operation, ...]
    resources: tuple[str, ...]
    scope: Scope = "*"


class MatchResources(Struct, frozen=True, kw_only=True, rename="camel"):
    """The requests that a policy or a binding matches. Exclude rules take precedence over resource rules.

    A policy has at least one resource rule. A binding without any matches all that its policy matches.
    """

    resource_rules: tuple[NamedRule, ...] = ()
    exclude_resource_rules: tuple[NamedRule, ...] = ()
    namespace_selector: LabelSelector = EVERYTHING
    object_selector: LabelSelector = EVERYTHING
    match_policy: MatchPolicy = "Equivalent"


class NamedExpression(Struct, frozen=True, kw_only=True, rename="camel"):
    """A match condition or a variable. A variable is `variables.<name>` in all later expressions."""

    name: str
    expression: Expression


class Validation(Struct, frozen=True, kw_only=True, rename="camel"):
    """An expression that has to be true, and the message if it is not, as written; empty if there is none."""

    expression: Expression
    message: str = ""
    message_expression: Expression | None = None
    reason: Reason = "Invalid"


class AuditAnnotation(Struct, frozen=True, kw_only=True, rename="camel"):
    """An annotation of the audit event; its full key is `<policy name>/<key>`."""

    key: str
    value_expression: Expression


class MutationExpression(Struct, frozen=True, kw_only=True, rename="camel"):
    """One mutation: an expression that returns an apply configuration (`Object{...}`) or a list of `JSONPatch{...}`."""

    patch_type: PatchType
    expression: Expression


class Policy(Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy of either kind.

    validations, audit_annotations: of a validating policy. mutations, reinvocation_policy: of a mutating policy.
    """

    kind: PolicyKind
    name: str
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    param_kind: ParamKind | None = None
    match_constraints: MatchResources
    match_conditions: tuple[NamedExpression, ...] = ()
    variables: tuple[NamedExpression, ...] = ()
    validations: tuple[Validation, ...] = ()
    audit_annotations: tuple[AuditAnnotation, ...] = ()
    mutations: tuple[MutationExpression, ...] = ()
    failure_policy: FailurePolicy = "Fail"
    reinvocation_policy: ReinvocationPolicy | Literal[""] = ""
    origin: Origin

    @property
    def failure_actions(self) -> frozenset[ValidationAction]:
        """What a failure leads to, whatever bindings say; none if it is ignored."""
        return DENY if self.failure_policy == "Fail" else frozenset()

    @property
    def judged_expressions(self) -> Iterator[Expression]:
        """The validations and their messageExpressions, whose types Kubernetes checks."""
        for validation in self.validations:
            yield validation.expression
            if validation.message_expression is not None:
                yield validation.message_expression

    @property
    def expressions(self) -> Iterator[Expression]:
        """All expressions in the order of the document."""
        yield from (condition.expression for condition in self.match_conditions)
        yield from (variable.expression for variable in self.variables)
        yield from self.judged_expressions
        yield from (annotation.value_expression for annotation in self.audit_annotations)
        yield from (mutation.expression for mutation in self.mutations)


class ParamRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """The objects of a policy's paramKind that are its parameters: either the one with `name`, or all in `selector`.

    namespace: empty for a cluster-scoped kind, or for the namespace of the request.
    """

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: ParameterNotFoundAction


class Binding(Struct, frozen=True, kw_only=True, rename="camel"):
    """A binding of either kind, which puts a policy into force. That of a mutating policy has no validation actions."""

    kind: BindingKind
    name: str
    policy_name: str
    annotations: Mapping[str, str] = {}
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: frozenset[ValidationAction] = frozenset()
    origin: Origin
