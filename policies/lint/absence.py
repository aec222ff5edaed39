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
from collections.abc import Iterable, Iterator, Mapping, Sequence

from policies.admissionpolicy.builtin.defaults import of_type
from policies.admissionpolicy.model import Expression, Policy
from policies.cel.syntax import ast
from policies.cel.syntax.ast import Call, Comprehension, Ident, Literal, Node, Select, children, walk
from policies.cel.syntax.source import CompileError
from policies.cel.types import Kind
from policies.lint.finding import LintFinding, LintSubject
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


def may_lack(struct: str, field: str, place: str, *known: DeclaredType | None) -> bool:
    """Whether the value at a place, of type `struct`, may lack a field; False if no known type tells it."""
    if field == "labels" and place.endswith("bject.spec.template.metadata"):
        return False  # a workload's selector has to match them
    if struct in _ABSENT:
        return field in _ABSENT[struct].split()
    for declared in known:
        if declared is None:
            continue
        if place.endswith("bject.metadata") and _METADATA.get(declared.type.name) == field:
            return False
        if field not in declared.structs.get(struct, ()):
            continue
        definition = declared.definitions.get(struct, "")
        of_all = struct == declared.type.name and field in ("apiVersion", "kind", "metadata")
        if of_all or (definition and not definition.startswith(_KNOWN)):
            return False
        constants = of_type(definition).constants if definition else ()
        defaulted = {default.path[0] for default in constants if len(default.path) == 1}
        return field.strip("_") not in declared.present[struct] | set(_FILLED.get(definition, "").split()) | defaulted
    return False


_Facts = frozenset[str]
_Scope = Mapping[str, str]
"""The variables of the macros around a node, with the keys of their values."""

_NOTHING: _Facts = frozenset()
_NEVER: _Facts = frozenset({"*"})  # the facts of an impossible case, from which everything follows
_LONGEST_KEY = 1_000
_SELECTIONS = ("_[_]", "_[?_]", "_?._")


class _Guards:
    """The facts that tests in one policy's expressions imply. variables: the trees of its variables."""

    def __init__(self, variables: Mapping[str, Node]) -> None:
        self._variables = variables
        self._facts: dict[tuple[int, frozenset[tuple[str, str]]], _Facts] = {}
        # Of variables by the ids of their trees. They may read others again and again.
        self._keys: dict[int, str] = {}
        self._implied: dict[tuple[int, bool], _Facts] = {}

    def variable(self, node: Node, scope: _Scope) -> Node | None:
        """The tree of `variables.x`; None for any other node, and if there is no such tree."""
        return None if "variables" in scope else self._variables.get(ast.variable(node) or "")

    def key(self, node: Node, scope: _Scope) -> str:
        """A string that identifies the place or the computation of a node."""
        tree = self.variable(node, scope)
        if tree is not None:
            if id(tree) not in self._keys:
                key = self.key(tree, {})
                self._keys[id(tree)] = key if len(key) <= _LONGEST_KEY else f"#{id(tree)}"
            return self._keys[id(tree)]
        match node:
            case Ident():
                return scope.get(node.name, node.name)
            case Select():
                return f"{self.key(node.operand, scope)}.{node.field}"
            case Call() if node.function in _SELECTIONS:
                return self._below(node.args[0], node.args[1], scope)
            case Call():
                return f"{node.function}({', '.join(self.key(argument, scope) for argument in node.arguments)})"
            case _:
                return repr(node.value) if isinstance(node, Literal) else f"#{id(node)}"

    def _below(self, operand: Node, index: Node, scope: _Scope) -> str:
        """The key of an element that an index or a map key selects."""
        if isinstance(index, Literal) and isinstance(index.value, str):
            return f"{self.key(operand, scope)}.{index.value}"
        return f"{self.key(operand, scope)}[{self.key(index, scope)}]"

    def implied(self, node: Node, scope: _Scope, *, truth: bool) -> _Facts:  # noqa: PLR0911 - one for each form of test
        """The facts that hold if an expression is true, or false."""
        tree = self.variable(node, scope)
        if tree is not None:
            if (id(tree), truth) not in self._implied:
                self._implied[id(tree), truth] = self.implied(tree, {}, truth=truth)
            return self._implied[id(tree), truth]
        match node:
            case Literal() if isinstance(node.value, bool):
                return _NOTHING if node.value is truth else _NEVER
            case Select() if node.test_only:
                return frozenset(self._chain(node, scope)) if truth else _NOTHING
            case Call(function="!_"):
                return self.implied(node.args[0], scope, truth=not truth)
            case Call(function="_&&_" | "_||_"):
                left, right = (self.implied(argument, scope, truth=truth) for argument in node.args)
                return left | right if truth is (node.function == "_&&_") else _either(left, right)
            case Call(function="_?_:_"):
                condition, then, otherwise = node.args
                return _either(
                    self.implied(condition, scope, truth=True) | self.implied(then, scope, truth=truth),
                    self.implied(condition, scope, truth=False) | self.implied(otherwise, scope, truth=truth),
                )
            case Call(function="@in") if _is_map(node.args[1]):
                return frozenset(self._tested(node, scope)) if truth else _NOTHING
            case Call(function="_==_" | "_!=_") if (subject := _compared_with_null(node)) is not None:
                return self._nullness(subject, scope, null=truth is (node.function == "_==_"))
            case _:
                return self._mentioned(node, scope)

    def demanded(self, node: Node) -> _Facts:
        """The facts that hold if an expression is true, only from plain tests that `&&` joins."""
        match node:
            case _ if (tree := self.variable(node, {})) is not None:
                return self.demanded(tree)
            case Call(function="_&&_"):
                return self.demanded(node.args[0]) | self.demanded(node.args[1])
            case Select():
                is_plain = node.test_only
            case Call(function="@in"):
                is_plain = _is_map(node.args[1])
            case Call(function="_!=_"):
                is_plain = _compared_with_null(node) is not None
            case _:
                is_plain = False
        return self.implied(node, {}, truth=True) if is_plain else _NOTHING

    def elements(self, node: Node, scope: _Scope) -> _Facts:
        """The facts about each element of a filtered list, as the ends of keys."""
        match node:
            case _ if (tree := self.variable(node, scope)) is not None:
                return self.elements(tree, {})
            case Comprehension(macro="filter"):
                facts = self.implied(node.body[-1], {**scope, node.variable: "@"}, truth=True)
                own = frozenset(fact.removeprefix("@") for fact in facts if fact.startswith("@"))
                return own | self.elements(node.range, scope)
            case Call(function="_+_"):
                return self.elements(node.args[0], scope) & self.elements(node.args[1], scope)
            case _:
                return _NOTHING

    def _nullness(self, subject: Node, scope: _Scope, *, null: bool) -> _Facts:
        key = self.key(subject, scope)
        if not null:
            return frozenset({*self._chain(subject, scope), f"{key}!"})
        other = {"object": "oldObject", "oldObject": "object"}.get(key)  # one of the two is always present
        return frozenset({f"{other}!"}) if other else _NOTHING

    def _mentioned(self, node: Node, scope: _Scope) -> _Facts:
        """The facts of all tests in an expression. They are cached, because variables are often read repeatedly."""
        key = id(node), frozenset(scope.items())
        if key not in self._facts:
            self._facts[key] = frozenset(fact for below in walk(node) for fact in self._tested(below, scope))
        return self._facts[key]

    def _tested(self, node: Node, scope: _Scope) -> Iterator[str]:
        match node:
            case Select(test_only=True) | Call(function="_?._" | "_[?_]"):
                yield from self._chain(node, scope)
            case Select(field="operation") if self.key(node, scope) == "request.operation":
                yield from ("object!", "oldObject!")
            case Call(function="@in"):
                yield self._below(node.args[1], node.args[0], scope)
                yield from self._chain(node.args[1], scope)
            case Call(function="_==_" | "_!=_") if (subject := _compared_with_null(node)) is not None:
                yield from self._nullness(subject, scope, null=False) | self._nullness(subject, scope, null=True)
            case Comprehension() if _is_map(node.range):
                yield f"{self.key(node.range, scope)}.*"
            case _:
                tree = self.variable(node, scope)
                yield from self._mentioned(tree, {}) if tree is not None else ()

    def _chain(self, node: Node, scope: _Scope) -> Iterator[str]:
        """The keys of a place and of all places above it."""
        while isinstance(node, Select) or (isinstance(node, Call) and node.function in _SELECTIONS):
            yield self.key(node, scope)
            tree = self.variable(node, scope)
            if tree is not None:
                yield from self._chain(tree, {})
                return
            node = node.operand if isinstance(node, Select) else node.args[0]
        if isinstance(node, Ident):
            yield f"{self.key(node, scope)}!"


def _is_map(node: Node) -> bool:
    return node.type is not None and node.type.kind is not Kind.LIST


def _compared_with_null(node: Call) -> Node | None:
    left, right = node.args
    if isinstance(right, Literal) and right.value is None:
        return left
    return right if isinstance(left, Literal) and left.value is None else None


def _either(left: _Facts, right: _Facts) -> _Facts:
    if "*" in left or "*" in right:
        return right if "*" in left else left
    return left & right


_READABLE = ("object.", "oldObject.", "params.", "namespaceObject.", "request.")
_NAMESPACE = "namespaceObject"
_MOST_READS = 2_000  # of variables, each once for all that is known where it is read, which may be any of 2**n sets
_NULL_TEST = re.compile(rf"{_NAMESPACE}\s*[!=]=\s*null")


def unguarded(
    policy: Policy, subject: LintSubject, catalog: ResourceCatalog, typed: Sequence[TypedPolicy]
) -> Iterable[LintFinding]:
    """The findings missing-has and null-object, each place once. typed: the policy for each of its kinds."""
    findings: dict[tuple[str, int], LintFinding] = {}
    for plain in typed:
        for place, finding in _KindReview(policy, subject, plain, catalog).findings():
            findings.setdefault(place, finding)
    return findings.values()


class _KindReview:
    """Walks over the expressions of a policy for objects of one kind, except parts behind a test for another kind."""

    def __init__(self, policy: Policy, subject: LintSubject, plain: TypedPolicy, catalog: ResourceCatalog) -> None:
        self._policy, self._subject, self._plain = policy, subject, plain
        self._typed = TypedPolicy(policy, plain.kind, catalog, deep=True) if policy.variables else plain
        self._variables = {variable.name: variable.expression for variable in policy.variables}
        trees = {name: self._tree(expression) for name, expression in self._variables.items()}
        self._guards = _Guards({name: tree for name, tree in trees.items() if tree is not None})
        self._tests = self._typed.tests()
        operations = {name for rule in policy.match_constraints.resource_rules for name in rule.operations}
        nulls = {"DELETE": "object", "CREATE": "oldObject"}
        self._nullable = {root for operation, root in nulls.items() if operations & {operation, "*"}}
        # By the path of the expression and the key of what is absent: the offset, and what is to be said.
        self._findings: dict[tuple[str, str], tuple[int, LintFinding]] = {}
        self._variables_read: set[tuple[str, _Facts]] = set()
        self._expression = Expression(text="", path="")

    def findings(self) -> Iterator[tuple[tuple[str, int], LintFinding]]:
        """The findings, each with the path of its expression and the offset in it."""
        policy = self._policy
        met = self._met()
        for condition in policy.match_conditions:
            self._read(condition.expression, self._met(but=condition.expression))
            self._read_namespace(condition.expression)
        for validation in policy.validations:
            # If another validation does not hold, it refuses the request anyway.
            trees = [self._tree(other.expression) for other in policy.validations if other is not validation]
            demanded = _NOTHING.union(*(self._guards.demanded(tree) for tree in trees if tree is not None))
            self._read(validation.expression, met | demanded)
            if validation.message_expression is not None:
                tree = self._tree(validation.expression)
                failed = _NOTHING if tree is None else self._guards.implied(tree, {}, truth=False)
                self._read(validation.message_expression, met | failed)
        for annotation in policy.audit_annotations:
            self._read(annotation.value_expression, met)
        for mutation in policy.mutations:
            self._read(mutation.expression, met)
        return (((path, offset), finding) for (path, _), (offset, finding) in self._findings.items())

    def _met(self, but: Expression | None = None) -> _Facts:
        """The facts if all other match conditions are true. If one is false, errors of the others do not count."""
        trees = [self._tree(other.expression) for other in self._policy.match_conditions if other.expression is not but]
        implied = (self._guards.implied(tree, {}, truth=True) for tree in trees if tree is not None)
        return _NOTHING.union(*implied) - {"*"}

    def _tree(self, expression: Expression) -> Node | None:
        """The tree with the most precise types; None if the expression has type errors, which are other findings."""
        for typed in (self._typed, self._plain):
            tree = typed.tree(expression)
            if not isinstance(tree, CompileError):
                return tree
        return None

    def _read(self, expression: Expression, facts: _Facts) -> None:
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
                message = f"{_NAMESPACE} is null in match conditions, so this fails on every request"
                remedy = "write a namespaceSelector, or move the condition into the validations"
                self._note("null-object", condition, node.start, _NAMESPACE, message, remedy)

    def _note(self, id_: str, expression: Expression, offset: int, key: str, message: str, remedy: str) -> None:
        if (expression.path, key) not in self._findings:
            finding = self._subject.within(id_, expression, offset, message, remedy)
            self._findings[expression.path, key] = offset, finding

    def _walk(self, node: Node, facts: _Facts, scope: _Scope) -> None:  # noqa: PLR0912 - a case for each form
        match node:
            case Select() if self._guards.variable(node, scope) is not None:
                if (node.field, facts) not in self._variables_read and len(self._variables_read) < _MOST_READS:
                    self._variables_read.add((node.field, facts))
                    self._read(self._variables[node.field], facts)
            case Select(operand=operand) | Call(function="_[_]", args=[operand, _]):
                before = len(self._findings)
                for below in children(node):
                    self._walk(below, facts, scope)
                index = None if isinstance(node, Select) else node.args[1]
                name = index.value if isinstance(index, Literal) else node.field if isinstance(node, Select) else None
                if len(self._findings) == before and isinstance(name, str):  # else the remedy for that helps here, too
                    self._check(node, operand, name, facts, scope)
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
            case Comprehension():
                self._fold(node, facts, scope)
            case _:
                for below in children(node):
                    self._walk(below, facts, scope)

    def _fold(self, node: Comprehension, facts: _Facts, scope: _Scope) -> None:
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
        for part in (node.condition, node.step, node.result):
            self._walk(part, known, inner)

    def _check(self, node: Select | Call, operand: Node, name: str, facts: _Facts, scope: _Scope) -> None:
        """Note a read of a name if its operand may be null, or may lack it."""
        place, type_ = self._guards.key(operand, scope), operand.type
        key, id_, written = f"{place}.{name}", "missing-has", self._expression.text[operand.start : operand.end]
        is_test = isinstance(node, Select) and node.test_only
        if place in self._nullable and isinstance(operand, Ident) and f"{place}!" not in facts:
            key, id_ = place, "null-object"
            operation, other = ("DELETE", "oldObject") if written == "object" else ("CREATE", "object")
            message = f"{written} is null on {operation}, which the policy matches, but {written}.{name} is read"
            remedy = f"write {written} != null && ..., or read {other} instead"
            remedy += "" if len(self._nullable) > 1 else f", or remove {operation} from the rules"
        elif is_test or type_ is None or key in facts or f"{place}.*" in facts:
            return
        elif type_.kind is Kind.STRUCT and may_lack(type_.name, name, place, self._typed.object, self._typed.params):
            message = f"{written}.{name} may be absent; then the expression fails"
            remedy = f"test it first with has({written}.{name}) && ..., or write {written}.?{name}.orValue(...)"
        elif type_.kind is Kind.MAP and place.startswith(_READABLE):
            message = f"{written} may not have the key {name!r}; then the expression fails"
            remedy = f"test it first with {name!r} in {written} && ..., or write {written}[?{name!r}].orValue(...)"
        else:
            return
        self._note(id_, self._expression, node.start, key, message, remedy)
