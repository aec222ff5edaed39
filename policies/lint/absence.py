"""Finds reads of what may be absent: fields without `has()`, map keys without `in`, an `object` that is null.

Each side of `&&` and `||` guards the other: in CEL an error on one side counts only if the other does not decide.

For a built-in kind, OpenAPI tells what is required and what is always written, and builtin/defaults.py what has a
default of its own. What depends on other fields, on the cluster or on validation is in the tables here. A field that is
filled in conditionally counts as always present. Sources: SetDefaults_* in kubernetes'
pkg/apis/{core,apps,batch,networking,rbac}/v1/defaults.go, and BeforeCreate in k8s.io/apiserver's
pkg/registry/rest/create.go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal as OneOf
from typing import NamedTuple

from policies.admissionpolicy.builtin.defaults import of_type
from policies.admissionpolicy.model import Expression, Policy
from policies.cel.syntax.ast import Call, Comprehension, Ident, Literal, Node, Select, children, walk
from policies.cel.syntax.source import CompileError
from policies.cel.types import Kind
from policies.lint.finding import LintFinding, LintSubject
from policies.lint.guards import NOTHING, Facts, Guards, Scope
from policies.lint.typecheck import DeclaredType, ResourceCatalog, TypedPolicy

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_CORE, _APPS, _BATCH = (f"io.k8s.api.{group}.v1" for group in ("core", "apps", "batch"))
# Other groups are not checked, because their defaults are not in the table.
_KNOWN = (_CORE, _APPS, _BATCH, "io.k8s.api.networking.v1", "io.k8s.api.rbac.v1", "io.k8s.apimachinery.pkg.apis.meta")
_ROLLING = "type rollingUpdate"
_HISTORY = "replicas revisionHistoryLimit"
_CONTAINER = "image imagePullPolicy"

_FILLED: Mapping[str, str] = {
    _META: "name namespace uid creationTimestamp generation managedFields resourceVersion",
    f"{_APPS}.DeploymentSpec": f"{_HISTORY} progressDeadlineSeconds",
    f"{_APPS}.DeploymentStrategy": _ROLLING,
    f"{_APPS}.RollingUpdateDeployment": "maxUnavailable maxSurge",
    f"{_APPS}.DaemonSetSpec": "revisionHistoryLimit",
    f"{_APPS}.DaemonSetUpdateStrategy": _ROLLING,
    f"{_APPS}.RollingUpdateDaemonSet": "maxUnavailable maxSurge",
    f"{_APPS}.StatefulSetSpec": f"{_HISTORY} podManagementPolicy persistentVolumeClaimRetentionPolicy",
    f"{_APPS}.StatefulSetUpdateStrategy": _ROLLING,
    f"{_APPS}.RollingUpdateStatefulSetStrategy": "partition maxUnavailable",
    f"{_APPS}.StatefulSetPersistentVolumeClaimRetentionPolicy": "whenDeleted whenScaled",
    f"{_APPS}.ReplicaSetSpec": "replicas template",
    f"{_BATCH}.JobSpec": (
        "completions parallelism backoffLimit completionMode suspend podReplacementPolicy manualSelector selector"
    ),
    f"{_BATCH}.CronJobSpec": "concurrencyPolicy suspend successfulJobsHistoryLimit failedJobsHistoryLimit",
    f"{_CORE}.ReplicationControllerSpec": "replicas selector template",
    f"{_CORE}.PodTemplateSpec": "spec metadata",
    f"{_CORE}.PodSpec": ("enableServiceLinks serviceAccountName serviceAccount tolerations priority preemptionPolicy"),
    f"{_CORE}.Container": _CONTAINER,
    f"{_CORE}.EphemeralContainer": _CONTAINER,
    f"{_CORE}.ImageVolumeSource": "pullPolicy",
    f"{_CORE}.ServiceSpec": (
        "sessionAffinity type ports clusterIP clusterIPs ipFamilies ipFamilyPolicy internalTrafficPolicy"
        " externalTrafficPolicy allocateLoadBalancerNodePorts"
    ),
    f"{_CORE}.ServicePort": "targetPort",
    f"{_CORE}.PersistentVolumeSpec": "persistentVolumeReclaimPolicy volumeMode",
    f"{_CORE}.PersistentVolumeClaimStatus": "phase",
    f"{_CORE}.PodStatus": "phase qosClass",
    f"{_CORE}.NamespaceSpec": "finalizers",
    "io.k8s.api.networking.v1.NetworkPolicySpec": "policyTypes podSelector",
    "io.k8s.api.rbac.v1.Subject": "apiGroup",
}
# Metadata that all objects of a kind have: from conversion, from admission, from the template.
_METADATA: Mapping[str, str] = {
    "DaemonSet": "annotations",
    "PersistentVolumeClaim": "finalizers",
    "ReplicationController": "labels",
}
# Fields that may be absent in types of CEL's own. The other fields are present, or empty ones mean nothing.
_ABSENT: Mapping[str, str] = {
    "kubernetes.AdmissionRequest": "subResource requestSubResource",
    "kubernetes.UserInfo": "extra",
    "kubernetes.NamespaceMetadata": "annotations deletionTimestamp deletionGracePeriodSeconds generateName finalizers",
}


class FieldPresence:
    """The presence of fields in the types of one policy's objects and parameters."""

    def __init__(self, *declared: DeclaredType | None) -> None:
        self._declared = [declaration for declaration in declared if declaration is not None]

    def may_lack(self, struct: str, field: str, place: str) -> bool:
        """Whether the value at a place, of type `struct`, may lack a field; False if that is unknown."""
        if field == "labels" and place.endswith("bject.spec.template.metadata"):
            return False  # a workload's selector has to match them
        if struct in _ABSENT:
            return field in _ABSENT[struct].split()
        for declared in self._declared:
            if place.endswith("bject.metadata") and _METADATA.get(declared.type.name) == field:
                return False
            if field in declared.structs.get(struct, ()):
                return _may_lack(declared, struct, field)
        return False


def _may_lack(declared: DeclaredType, struct: str, field: str) -> bool:
    if struct == declared.type.name and field in ("apiVersion", "kind", "metadata"):
        return False
    definition = declared.definitions.get(struct, "")
    if definition and not definition.startswith(_KNOWN):
        return False
    constants = of_type(definition).constants if definition else ()
    defaulted = {default.path[0] for default in constants if len(default.path) == 1}
    return field.strip("_") not in declared.present[struct] | set(_FILLED.get(definition, "").split()) | defaulted


_READABLE = ("object.", "oldObject.", "params.", "namespaceObject.", "request.")
_NAMESPACE = "namespaceObject"
_MOST_READS = 2_000  # of variables, each once for all that is known where it is read, which may be any of 2**n sets
_NULL_TEST = re.compile(rf"{_NAMESPACE}\s*[!=]=\s*null")
_Reason = OneOf["field", "key", "null"]


class _Absence(NamedTuple):
    """One read of something that may be absent: its expression, its offset, the operand, and the name read from it."""

    reason: _Reason
    expression: Expression
    offset: int
    operand: str
    name: str


def unguarded(
    policy: Policy, subject: LintSubject, catalog: ResourceCatalog, typed: Sequence[TypedPolicy]
) -> Iterator[LintFinding]:
    """The findings missing-has and null-object, each place once. typed: the policy for each of its kinds."""
    absences: dict[tuple[str, int], _Absence] = {}
    for plain in typed:
        for absence in _KindReview(policy, plain, catalog).absences():
            absences.setdefault((absence.expression.path, absence.offset), absence)
    for absence in absences.values():
        yield _finding(absence, subject, _nullable(policy))


class _KindReview:
    """Walks over the expressions of a policy for objects of one kind, except parts behind a test for another kind."""

    def __init__(self, policy: Policy, plain: TypedPolicy, catalog: ResourceCatalog) -> None:
        self._policy, self._plain = policy, plain
        self._typed = TypedPolicy(policy, plain.kind, catalog, deep=True) if policy.variables else plain
        self._variables = {variable.name: variable.expression for variable in policy.variables}
        trees = {name: self._tree(expression) for name, expression in self._variables.items()}
        self._guards = Guards({name: tree for name, tree in trees.items() if tree is not None})
        self._presence = FieldPresence(self._typed.object, self._typed.params)
        self._tests, self._nullable = self._typed.tests(), _nullable(policy)
        self._absences: dict[tuple[str, str], _Absence] = {}
        self._variables_read: set[tuple[str, Facts]] = set()
        self._expression = Expression(text="", path="")

    def absences(self) -> Iterable[_Absence]:
        policy = self._policy
        met = self._met()
        for condition in policy.match_conditions:
            self._read(condition.expression, self._met(but=condition.expression))
            self._read_namespace(condition.expression)
        for validation in policy.validations:
            # If another validation does not hold, it refuses the request anyway.
            trees = [self._tree(other.expression) for other in policy.validations if other is not validation]
            demanded = NOTHING.union(*(self._guards.demanded(tree) for tree in trees if tree is not None))
            self._read(validation.expression, met | demanded)
            if validation.message_expression is not None:
                tree = self._tree(validation.expression)
                failed = NOTHING if tree is None else self._guards.implied(tree, {}, truth=False)
                self._read(validation.message_expression, met | failed)
        for annotation in policy.audit_annotations:
            self._read(annotation.value_expression, met)
        for mutation in policy.mutations:
            self._read(mutation.expression, met)
        return self._absences.values()

    def _met(self, but: Expression | None = None) -> Facts:
        """The facts if all other match conditions are true. If one is false, errors of the others do not count."""
        trees = [self._tree(other.expression) for other in self._policy.match_conditions if other.expression is not but]
        implied = (self._guards.implied(tree, {}, truth=True) for tree in trees if tree is not None)
        return NOTHING.union(*implied) - {"*"}

    def _tree(self, expression: Expression) -> Node | None:
        """The tree with the most precise types; None if the expression has type errors, which are other findings."""
        for typed in (self._typed, self._plain):
            tree = typed.tree(expression)
            if not isinstance(tree, CompileError):
                return tree
        return None

    def _read(self, expression: Expression, facts: Facts) -> None:
        """Note all reads in an expression that may be absent. facts: what is known to be present."""
        tree = self._tree(expression)
        if tree is not None:
            outer, self._expression = self._expression, expression
            self._walk(tree, facts, {})
            self._expression = outer

    def _read_namespace(self, condition: Expression) -> None:
        """Note where a match condition reads namespaceObject, which is null there, whatever else it tests."""
        tree = None if _NULL_TEST.search(condition.text) else self._tree(condition)
        for node in () if tree is None else walk(tree):
            if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == _NAMESPACE:
                absence = _Absence("null", condition, node.start, _NAMESPACE, node.field)
                self._absences.setdefault((condition.path, _NAMESPACE), absence)

    def _walk(self, node: Node, facts: Facts, scope: Scope) -> None:
        match node:
            case Select():
                self._select(node, facts, scope)
            case Call(function="_&&_" | "_||_"):
                left, right = node.args
                truth = node.function == "_&&_"
                for side, other in ((left, right), (right, left)):
                    if side in self._tests.live(node):
                        self._walk(side, facts | self._guards.implied(other, scope, truth=truth), scope)
            case Call(function="_?_:_"):
                condition, then, _ = node.args
                self._walk(condition, facts, scope)
                for branch in self._tests.live(node)[1:]:
                    known = self._guards.implied(condition, scope, truth=branch is then)
                    self._walk(branch, facts | known, scope)
            case Call(function="_[_]"):
                before = len(self._absences)
                operand, index = node.args
                self._walk_all((operand, index), facts, scope)
                if len(self._absences) == before and isinstance(index, Literal) and isinstance(index.value, str):
                    self._check(node, operand, index.value, facts, scope)
            case Comprehension():
                self._fold(node, facts, scope)
            case _:
                self._walk_all(children(node), facts, scope)

    def _walk_all(self, nodes: Collection[Node], facts: Facts, scope: Scope) -> None:
        for node in nodes:
            self._walk(node, facts, scope)

    def _select(self, node: Select, facts: Facts, scope: Scope) -> None:
        if self._guards.variable(node, scope) is not None:
            if (node.field, facts) not in self._variables_read and len(self._variables_read) < _MOST_READS:
                self._variables_read.add((node.field, facts))
                self._read(self._variables[node.field], facts)
            return
        before = len(self._absences)
        self._walk(node.operand, facts, scope)
        if len(self._absences) == before:  # otherwise the remedy for that read also helps here
            self._check(node, node.operand, node.field, facts, scope)

    def _fold(self, node: Comprehension, facts: Facts, scope: Scope) -> None:
        self._walk(node.range, facts, scope)
        over = self._guards.key(node.range, scope)
        element = f"{over}[#{id(node)}]"
        inner = {**scope, node.variable: element}
        if node.variable2 is not None:
            inner |= {node.variable: f"#{id(node)}", node.variable2: element}
        self._walk(node.init, facts, scope)
        if not isinstance(node.init, Literal):  # macros such as optMap bind a value to a name
            inner[node.accumulator] = self._guards.key(node.init, scope)
        known = facts | {f"{element}{end}" for end in self._guards.elements(node.range, scope)}
        self._walk_all((node.condition, node.step, node.result), known, inner)

    def _check(self, node: Select | Call, operand: Node, name: str, facts: Facts, scope: Scope) -> None:
        place = self._guards.key(operand, scope)
        key, type_ = f"{place}.{name}", operand.type
        reason: _Reason | None = None
        is_test = isinstance(node, Select) and node.test_only
        if place in self._nullable and isinstance(operand, Ident) and f"{place}!" not in facts:
            key, reason = place, "null"
        elif is_test or type_ is None or key in facts or f"{place}.*" in facts:
            return
        elif type_.kind is Kind.STRUCT and self._presence.may_lack(type_.name, name, place):
            reason = "field"
        elif type_.kind is Kind.MAP and place.startswith(_READABLE):
            reason = "key"
        if reason is not None:
            written = self._expression.text[operand.start : operand.end]
            absence = _Absence(reason, self._expression, node.start, written, name)
            self._absences.setdefault((self._expression.path, key), absence)


def _nullable(policy: Policy) -> frozenset[str]:
    """Which of the two objects may be null: `object` on DELETE, `oldObject` on CREATE."""
    operations = {name for rule in policy.match_constraints.resource_rules for name in rule.operations}
    nulls = {"DELETE": "object", "CREATE": "oldObject"}
    return frozenset(root for operation, root in nulls.items() if operations & {operation, "*"})


def _finding(absence: _Absence, subject: LintSubject, nullable: frozenset[str]) -> LintFinding:
    operand, name = absence.operand, absence.name
    match absence.reason:
        case "null" if operand == _NAMESPACE:
            message = f"{_NAMESPACE} is null in match conditions, so this fails on every request"
            remedy = "write a namespaceSelector, or move the condition into the validations"
            return subject.within("null-object", absence.expression, absence.offset, message, remedy)
        case "null":
            operation, other = ("DELETE", "oldObject") if operand == "object" else ("CREATE", "object")
            message = f"{operand} is null on {operation}, which the policy matches, but {operand}.{name} is read"
            remedy = f"write {operand} != null && ..., or read {other} instead"
            remedy += "" if len(nullable) > 1 else f", or remove {operation} from the rules"
            return subject.within("null-object", absence.expression, absence.offset, message, remedy)
        case "field":
            message = f"{operand}.{name} may be absent; then the expression fails"
            remedy = f"test it first with has({operand}.{name}) && ..., or write {operand}.?{name}.orValue(...)"
        case _:
            message = f"{operand} may not have the key {name!r}; then the expression fails"
            remedy = f"test it first with {name!r} in {operand} && ..., or write {operand}[?{name!r}].orValue(...)"
    return subject.within("missing-has", absence.expression, absence.offset, message, remedy)
