"""Type checking of a policy's expressions, as `status.typeChecking` of a ValidatingAdmissionPolicy has it.

Source: k8s.io/apiserver's pkg/admission/plugin/policy/validating/typechecking.go. Kubernetes checks validations and
their messageExpressions, with `object`, `oldObject` and `params` of the types that the schemas say. The other
expressions of a policy can be checked here in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from policies.admissionpolicy.model import Expression, MatchResources, NamedRule, ParamKind, Policy
from policies.admissionpolicy.schema import open_api
from policies.cel import types
from policies.cel.checking.checker import check
from policies.cel.checking.validation import walk
from policies.cel.environment import Environment
from policies.cel.evaluation.recursion import deeply
from policies.cel.kubernetes import VARIABLES, admission, variable_type
from policies.cel.syntax.ast import Node, Select
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Issue
from policies.cel.types import Type
from policies.engine.request import GroupVersionKind
from policies.lint.catalog import ResourceCatalog
from policies.lint.declared import DeclaredType, declare
from policies.lint.kindtests import KindTests

TYPES_LIMIT = 10
"""Kubernetes collects no more kinds than these from one rule, and then looks at no further rule."""


@dataclass(frozen=True, slots=True)
class TypeErrors:
    """What is wrong with an expression if the object is of a kind."""

    expression: Expression
    kind: GroupVersionKind
    error: CompileError

    def __str__(self) -> str:
        """As Kubernetes words it: `apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field ...`."""
        kind = self.kind
        issues = self.error.full_reference().removeprefix("compilation failed: ")
        return f"{kind.group}/{kind.version}, Kind={kind.kind}: {issues}\n"


@dataclass(frozen=True, slots=True)
class ExpressionWarning:
    """An entry of `status.typeChecking.expressionWarnings`."""

    field_ref: str
    warning: str


def warnings(policy: Policy, catalog: ResourceCatalog) -> tuple[ExpressionWarning, ...]:
    """The warnings that Kubernetes writes into the status of a ValidatingAdmissionPolicy."""
    kinds = checked_kinds(policy, catalog)
    typed = [TypedPolicy(policy, kind, catalog, exact=True) for kind in kinds]
    checked = (
        (expression, [policy_.errors(expression) for policy_ in typed]) for expression in policy.judged_expressions
    )
    return tuple(
        ExpressionWarning(expression.path, "\n".join(str(error) for error in errors if error is not None))
        for expression, errors in checked
        if any(errors)
    )


def checked_kinds(policy: Policy, catalog: ResourceCatalog) -> tuple[GroupVersionKind, ...]:
    """The kinds that a policy is checked for, in Kubernetes' order: those of rules without wildcards."""
    collected = _collected(policy.match_constraints, catalog)
    known = (kind for kind in dict.fromkeys(collected) if catalog.open_api(kind) is not None)
    return tuple(sorted(known, key=lambda kind: (kind.group, kind.version, kind.kind)))


def _collected(constraints: MatchResources, catalog: ResourceCatalog) -> list[GroupVersionKind]:
    collected: list[GroupVersionKind] = []
    for rule in constraints.resource_rules:
        kinds = [kind for target in _targets(rule) for kind in catalog.kinds(*target)]
        collected += kinds[:TYPES_LIMIT]
        if len(kinds) >= TYPES_LIMIT:
            break
    return collected


def _targets(rule: NamedRule) -> Iterator[tuple[str, str, str]]:
    """Groups, versions and resources of a rule without wildcards; subresources are not looked at."""
    if any("*" in name for name in (*rule.api_groups, *rule.api_versions)):
        return
    plain = sorted(name for name in rule.resources if "*" not in name and "/" not in name)
    for group in sorted(rule.api_groups):
        for version in sorted(rule.api_versions):
            for name in plain:
                yield group, version, name


class TypedPolicy:
    """A policy whose object is of one kind; None for a kind that is not known.

    exact: as Kubernetes has it, which misses fields that have several types (quantities), objects without known fields
    and `authorizer.requestResource`, and looks at what is only for other kinds. Else these are dyn, and what is behind
    a test for another kind is not looked at. deep: variables keep types with fields, which are dyn else.
    """

    def __init__(
        self,
        policy: Policy,
        kind: GroupVersionKind | None,
        catalog: ResourceCatalog,
        *,
        exact: bool = False,
        deep: bool = False,
    ) -> None:
        self.kind = kind
        self._exact = exact
        untyped = None if exact else types.DYN
        self.object = None if kind is None else _declared(kind, catalog, untyped)
        self.params = None if policy.param_kind is None else _declared(_kind(policy.param_kind), catalog, untyped)
        known = admission(params=policy.param_kind is not None)
        self._environment = _environment(known, self.object, self.params, exact=exact)
        self._trees: dict[tuple[Expression, bool], Node | CompileError] = {}
        self.variables: dict[str, Node | CompileError] = {}
        fields: dict[str, Type] = {}
        for variable in policy.variables:
            tree = self.tree(variable.expression)
            self.variables[variable.name] = tree
            type_ = None if isinstance(tree, CompileError) else tree.type
            type_ = types.DYN if type_ is None or type_ == types.ERROR else type_
            fields = {**fields, variable.name: type_ if deep else variable_type(type_)}
            self._environment = self._environment.with_fields(VARIABLES.name, fields)

    def errors(self, expression: Expression, *, patch_types: bool = False) -> TypeErrors | None:
        """What is wrong with one of its expressions."""
        tree = self.tree(expression, patch_types=patch_types)
        if not isinstance(tree, CompileError) or self.kind is None:
            return None
        return TypeErrors(expression, self.kind, tree)

    def tree(self, expression: Expression, *, patch_types: bool = False) -> Node | CompileError:
        """The tree of an expression with its types, or why there is none. patch_types: for mutations."""
        key = expression, patch_types
        if key not in self._trees:
            self._trees[key] = self._checked(expression, patch_types=patch_types)
        return self._trees[key]

    def _checked(self, expression: Expression, *, patch_types: bool) -> Node | CompileError:
        environment = replace(self._environment, patch_types=True) if patch_types else self._environment
        if patch_types:
            functions = admission(params="params" in environment.variables, patch_types=True)
            environment = replace(environment, functions=functions.functions, type_names=functions.type_names)
        source = expression.source
        trees: list[Node] = []

        def checked() -> None:
            trees[:] = [parse(source)]
            check(trees[0], source, environment)

        try:
            deeply(checked)
        except CompileError as error:
            if self._exact or not trees:
                return error
            issues = self._live_issues(trees[0], error)
            if issues:
                return CompileError(source, issues)
        return trees[0]

    def _live_issues(self, tree: Node, error: CompileError) -> list[Issue]:
        """The issues that are not behind a test for another kind, and do not follow from another issue."""
        fields = {node.position: True for node in walk(tree) if self._is_always_true(node)}
        fields |= {issue.position: False for issue in error.issues if issue.message.startswith("undefined field")}
        live = {node.position for node in self.tests(fields).walk(tree)}
        return [issue for issue in error.issues if issue.position in live and not self._works(issue.message)]

    def _is_always_true(self, node: Node) -> bool:
        """Whether a node is `has()` of a field that is always there."""
        if not isinstance(node, Select) or not node.test_only or self.object is None or node.operand.type is None:
            return False
        return node.field in self.object.present.get(node.operand.type.name, ())

    def _works(self, message: str) -> bool:
        """Whether an issue follows from another one, or is one for the checker only.

        When expressions run, objects are maps, and equality and lists know no types.
        """
        lenient = re.match(r"found no matching overload for '(_\+_|_\?_:_|@in|_\[_\]|_\[\?_\]|_==_|_!=_)'", message)
        structs = [name for declared in (self.object, self.params) if declared is not None for name in declared.structs]
        mixed = lenient or message.startswith(("expected type", "expression of type"))
        return "!error!" in message or (bool(mixed) and any(name in message for name in structs))

    def live_positions(self, expression: Expression) -> frozenset[int]:
        """The offsets of what is not behind a test for another kind."""
        return frozenset(node.position for node in self.tests().walk(parse(expression.source)))

    def tests(self, fields: Mapping[int, bool] | None = None) -> KindTests:
        """What is known of tests for the kind; `fields`: of those with `has()`, by their positions."""
        known = self.variables

        def variable(name: str) -> Node | None:
            tree = known.get(name)
            return None if isinstance(tree, CompileError) else tree

        return KindTests(self.kind, variable, fields or {})


def _kind(param_kind: ParamKind) -> GroupVersionKind:
    group, _, version = param_kind.api_version.rpartition("/")
    return GroupVersionKind(group, version, param_kind.kind)


def _declared(kind: GroupVersionKind, catalog: ResourceCatalog, untyped: Type | None) -> DeclaredType | None:
    custom = catalog.custom.get(kind)
    return _built_in(kind, untyped) if custom is None else declare(kind.kind, custom, untyped)


@cache
def _built_in(kind: GroupVersionKind, untyped: Type | None) -> DeclaredType | None:
    schema = open_api(kind)
    return None if schema is None else declare(kind.kind, schema, untyped)


def _environment(
    known: Environment, obj: DeclaredType | None, parameters: DeclaredType | None, *, exact: bool
) -> Environment:
    """As buildEnvSet has it: exactly, it knows `authorizer`, but not `authorizer.requestResource`."""
    hidden = "authorizer.requestResource" if exact else ""
    variables = {name: type_ for name, type_ in known.variables.items() if name != hidden}
    structs = dict(known.structs)
    for names, declared in ((("object", "oldObject"), obj), (("params",), parameters)):
        if declared is not None and names[0] in variables:
            variables |= dict.fromkeys(names, declared.type)
            structs |= declared.structs
    return replace(known, variables=variables, structs=structs)
