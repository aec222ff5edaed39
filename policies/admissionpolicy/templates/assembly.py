"""A policy on Pods as policies on the templates of workloads: one for all kinds with the same expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from policies.admissionpolicy.evaluation.compilation import compile_policy
from policies.admissionpolicy.evaluation.matching import Matcher
from policies.admissionpolicy.model import Binding, Expression, MatchResources, Policy, Validation
from policies.admissionpolicy.pods.derivation import POD, PODS, is_derived, templated
from policies.admissionpolicy.templates import guards, reach
from policies.admissionpolicy.templates.controlled import typed
from policies.admissionpolicy.templates.documents import Body, binding_document, policy_document
from policies.admissionpolicy.templates.folding import folded
from policies.admissionpolicy.templates.rewriting import rewritten
from policies.admissionpolicy.templates.steps import Subject, UnexportableError
from policies.admissionpolicy.templates.target import NAME, Target
from policies.admissionpolicy.templates.trees import (
    below,
    call,
    filled,
    ident,
    is_false,
    is_true,
    joined,
    literal,
    names,
    negated,
    pick,
)
from policies.cel.evaluation.recursion import deeply
from policies.cel.reads import Reads
from policies.cel.syntax.ast import Ident, Node, Select
from policies.cel.syntax.parser import parse
from policies.cel.syntax.unparse import unparse
from policies.engine.request import AdmissionRequest, Operation, UserInfo
from policies.golang.quote import trimmed
from policies.kubernetes.release import NEWEST, Release
from policies.objects.fieldpath import render
from policies.objects.workload import Workload

WIDTH: Final = 108
"""The columns of an expression in its file, behind the indentation of YAML."""
_VARIABLE = "template"
_CHANGED = "template-changed"
_DELETED = "not-being-deleted"
_OWNED = "not-made-by-a-workload"


class Exported(NamedTuple):
    """Documents, what could not be exported (errors), and what is left out on purpose (notes)."""

    policies: tuple[Mapping[str, Any], ...] = ()
    bindings: tuple[Mapping[str, Any], ...] = ()
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Check = Callable[[Mapping[str, Any], Workload], Iterable[str]]


@dataclass(frozen=True)
class _Failure(Exception):  # noqa: N818 - the error of one kind, which becomes a line
    """An expression that cannot be exported."""

    expression: Expression
    position: int
    reason: str

    @property
    def where(self) -> str:
        line, column = self.expression.source.location(max(self.position, 0))
        return f"{self.expression.file}:{line}:{column}"


def exported(
    policy: Policy,
    bindings: Sequence[Binding],
    workloads: Mapping[tuple[str, str], Workload],
    check: Check = lambda _document, _row: (),
    release: Release = NEWEST,
) -> Exported:
    """What judges the templates of all kinds in the table as the policy judges Pods.

    check: returns what is wrong with a document that is for a kind, among others; then it is left out. release: that of
    the API server which gets the documents.
    """
    if not is_derived(policy) or not _judges(policy.match_constraints, "CREATE"):
        return Exported()
    if reasons := list(_unsupported(policy, bindings)):
        return Exported(errors=tuple(f"{_shown(policy)}: {reason}" for reason in reasons))
    judging = [binding for binding in bindings if _judges(binding.match_resources, "CREATE")]
    if not judging:
        return Exported()
    bodies: dict[Body, list[Target]] = {}
    failures: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    made = _Policy(policy, workloads, release)
    for target in made.targets():
        try:
            body = deeply(lambda target=target: made.body(target))  # type: ignore[misc]
        except _Failure as failure:
            failures.setdefault(f"{failure.where}: {policy.name} {failure.reason}", []).append(target.row.kind)
        except guards.OpenError as left_open:
            notes.setdefault(str(left_open), []).append(target.row.kind)
        else:
            if body is not None:
                bodies.setdefault(body, []).append(target)
    documents, refused = _documents(policy, bodies, check)
    return Exported(
        tuple(documents),
        tuple(binding_document(b, each["metadata"]["name"], policy.name) for each in documents for b in judging),
        (*(f"{failure} (templates of {', '.join(kinds)})" for failure, kinds in failures.items()), *refused),
        tuple(
            f"{_shown(policy)} does not judge templates of {', '.join(kinds)}: it reads {fields}, which may still be "
            "filled in when their Pods are created"
            for fields, kinds in notes.items()
        ),
    )


def _documents(
    policy: Policy, bodies: Mapping[Body, Sequence[Target]], check: Check
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """The policies, and what is wrong with those that are left out."""
    documents, refused = [], []
    for name, body in _names(policy.name, bodies):
        document = policy_document(policy, name, body, [target.row for target in bodies[body]])
        problems = list(check(document, bodies[body][0].row))
        refused += [f"{_shown(policy)}: for {name}, {problem}" for problem in problems]
        documents += [] if problems else [document]
    return documents, refused


def _shown(policy: Policy) -> str:
    return f"{policy.origin.file}:{policy.origin.line}: {policy.kind} {policy.name}"


def _unsupported(policy: Policy, bindings: Iterable[Binding]) -> Iterator[str]:
    """Why a policy cannot be exported for templates at all."""
    if policy.match_constraints.object_selector.requirements:
        yield "its objectSelector cannot select by the labels of a template; write it as a match condition"
    for binding in bindings:
        matched = binding.match_resources
        if matched is None:
            continue
        if matched.object_selector.requirements:
            yield f"the objectSelector of its binding {binding.name} cannot select by the labels of a template"
        if _judges(policy.match_constraints, "UPDATE") and _judges(matched, "CREATE") != _judges(matched, "UPDATE"):
            yield f"its binding {binding.name} tells creations of Pods from updates; let the policy do that"


def _judges(constraints: MatchResources | None, operation: Operation) -> bool:
    """Whether the rules match a write of Pods by a controller."""
    if constraints is None:
        return True
    request = AdmissionRequest(
        uid="", kind=POD, resource=PODS, namespace="n", operation=operation, user_info=UserInfo(username="")
    )
    rules = MatchResources(
        resource_rules=constraints.resource_rules,
        exclude_resource_rules=constraints.exclude_resource_rules,
        match_policy=constraints.match_policy,
    )
    return Matcher(rules).matches(request, lambda _: {})


class _Policy:
    """A policy while it is rewritten for one kind after the other."""

    def __init__(self, policy: Policy, workloads: Mapping[tuple[str, str], Workload], release: Release) -> None:
        self._policy = policy
        self._updates = _judges(policy.match_constraints, "UPDATE")
        self._reads: Reads = compile_policy(policy, release).reads["object"]
        self._rows = tuple(templated(workloads).values())
        self._trees = {expression.path: _tree(expression) for expression in policy.expressions}
        self._variables = {variable.name: variable.expression for variable in policy.variables}
        taken = {name for tree in self._trees.values() for name in names(tree)}
        self._variable = next(n for n in (_VARIABLE, *(f"{_VARIABLE}{i}" for i in range(99))) if n not in taken)

    def targets(self) -> list[Target]:
        """The kinds whose templates are judged."""
        return [Target(row, self._variable) for row in self._rows]

    def body(self, target: Target) -> Body | None:
        """The expressions for one kind; None if they hold for all of its templates. Raises _Failure and OpenError."""
        body = self._body(target, target.subject(updates=self._updates, named=False))
        if body is None or NAME not in repr(body):
            return body
        return self._body(target, target.subject(updates=self._updates, named=True))

    def _body(self, target: Target, subject: Subject) -> Body | None:
        guard = guards.guard(guards.open_fields(self._reads, target.row.group_kind), subject.reach.new)
        conditions = [
            (condition.name, self._rewritten(condition.expression, subject))
            for condition in self._policy.match_conditions
        ]
        if any(is_false(tree) for _, tree in conditions):
            return None
        conditions = [(name, tree) for name, tree in conditions if not is_true(tree)]
        if guard is not None:
            conditions.append(("fields-are-settled", guard))
        judged = [(v, self._judged(v, subject)) for v in self._policy.validations]
        judged = [(validation, trees) for validation, trees in judged if not is_true(trees[0])]
        if not judged:
            if not conditions or self._policy.failure_policy == "Ignore":
                return None
            judged = [
                (self._policy.validations[0], (literal(value=True), None))
            ]  # a condition that fails still refuses
        if target.is_single:
            return self._of_one(target, subject, conditions, judged)
        return self._of_several(target, subject, conditions, judged)

    def _judged(self, validation: Validation, subject: Subject) -> tuple[Node, Node | None]:
        message = validation.message_expression
        tree = self._rewritten(validation.expression, subject)
        return tree, None if message is None else self._rewritten(message, subject)

    def _rewritten(self, expression: Expression, subject: Subject) -> Node:
        """An expression, and before it the variables that it reads."""
        tree = self._trees[expression.path]
        for name in _variables_in(tree):
            if name in self._variables and name not in subject.variables:
                own = self._variables[name]
                self._rewritten_variable(name, own, subject)
        try:
            return rewritten(tree, subject).node
        except UnexportableError as error:
            raise _Failure(expression, error.position, str(error)) from None

    def _rewritten_variable(self, name: str, expression: Expression, subject: Subject) -> None:
        self._rewritten(expression, subject)
        subject.variables[name] = rewritten(self._trees[expression.path], subject)

    def _of_one(
        self,
        target: Target,
        subject: Subject,
        conditions: list[tuple[str, Node]],
        judged: list[tuple[Validation, tuple[Node, Node | None]]],
    ) -> Body:
        path = render(target.path)
        own = [(_CHANGED, reach.changed(target.path)), *self._own_conditions()]
        validations = []
        for validation, (tree, message) in judged:
            fields = [("expression", _text(tree)), ("message", f"{path}: {_message(validation)}")]
            if message is not None:
                text = folded(joined("_+_", [literal(f"{path}: "), message]))
                fields.append(("messageExpression", _text(text)))
            validations.append((*fields, ("reason", validation.reason)))
        variables = [(name, subject.variables[name].node) for name in self._variables if name in subject.variables]
        return Body(_texts([*own, *conditions]), _texts(variables), tuple(validations))

    def _of_several(
        self,
        target: Target,
        subject: Subject,
        conditions: list[tuple[str, Node]],
        judged: list[tuple[Validation, tuple[Node, Node | None]]],
    ) -> Body:
        element = target.variable
        filters = [reach.is_changed(element), *(tree for _, tree in conditions if element in set(names(tree)))]
        outside = [(name, tree) for name, tree in conditions if element not in set(names(tree))]
        trees = [tree for _, pair in judged for tree in pair if tree is not None]
        owners = any(_reads_owners(tree, element) for tree in [*trees, *filters])
        try:
            lists = target.lists(subject.added, owners=owners, old=True)
        except ValueError as error:
            raise _Failure(self._policy.validations[0].expression, 0, f"cannot be exported: {error}") from None
        whole = reach.templates(lists, filters, element)
        validations = [self._over_list(validation, element, *pair) for validation, pair in judged]
        kept = [
            (name, part.node)
            for name in self._variables
            if (part := subject.variables.get(name)) is not None and element not in set(names(part.node))
        ]
        variables = [*kept, (reach.TEMPLATES, folded(whole))]
        return Body(_texts([*self._own_conditions(), *outside]), _texts(variables), tuple(validations))

    def _over_list(
        self, validation: Validation, element: str, tree: Node, message: Node | None
    ) -> tuple[tuple[str, str], ...]:
        """A validation of all templates. Its message names the paths of those that it refuses."""
        over, variable = filled(f"variables.{reach.TEMPLATES}"), ident(element)
        text = literal(_message(validation)) if message is None else message
        told = joined("_+_", [pick(variable, "path"), literal(": "), text])
        refused = call("filter", variable, negated(tree), target=over)
        lines = call("join", literal("; "), target=call("map", variable, folded(told), target=refused))
        return (
            ("expression", _text(call("all", variable, tree, target=over))),
            ("message", _message(validation)),
            ("messageExpression", _text(lines)),
            ("reason", validation.reason),
        )

    def _own_conditions(self) -> list[tuple[str, Node]]:
        kinds = sorted(f"{row.kind}.{row.group or 'v1'}" for row in self._rows)
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        owned = filled(
            "request.operation != 'CREATE' || !object.metadata.?ownerReferences.orValue([]).exists(r, "
            f"r.?controller.orValue(false) && r.kind + '.' + r.apiVersion.split('/')[0] in [{listed}])"
        )
        return [(_DELETED, filled("!has(object.metadata.deletionTimestamp)")), (_OWNED, owned)]


def _tree(expression: Expression) -> Node:
    return deeply(lambda: parse(expression.source, expand=False))


def _text(tree: Node) -> str:
    return unparse(typed(tree), WIDTH)


def _texts(trees: Iterable[tuple[str, Node]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(tree)) for name, tree in trees)


def _message(validation: Validation) -> str:
    return trimmed(validation.message) or f"failed expression: {' '.join(validation.expression.text.split())}"


def _variables_in(tree: Node) -> list[str]:
    """The variables that a tree selects by their names."""
    found: list[str] = []
    work = [tree]
    while work:
        node = work.pop()
        if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "variables":
            found.append(node.field)
        work += below(node)
    return list(dict.fromkeys(found))


def _reads_owners(tree: Node, element: str) -> bool:
    return f"{element}.{reach.OWNERS}" in unparse(tree)


def _names(policy: str, bodies: Mapping[Body, Sequence[Target]]) -> list[tuple[str, Body]]:
    """A name for each body: `-templates` for the one for most kinds, else the kinds."""
    several = [body for body, targets in bodies.items() if len(targets) > 1 and targets[0].is_single]
    most = max(several, key=lambda body: len(bodies[body]), default=None)
    named = []
    for body, targets in bodies.items():
        words = [_word(target.row, bodies) for target in targets]
        suffix = "templates" if body is most else "-".join(words if len(words) <= 3 else [*words[:2], "and-more"])
        named.append((f"{policy}-{suffix}", body))
    return named


def _word(row: Workload, bodies: Mapping[Body, Sequence[Target]]) -> str:
    """The word for a kind in names: with a part of its group if two groups have this kind."""
    groups = {t.row.group for targets in bodies.values() for t in targets if t.row.kind == row.kind}
    if len(groups) == 1 or "." not in row.group:
        return row.kind.lower()
    return f"{row.group.split('.')[-2]}-{row.kind.lower()}"
