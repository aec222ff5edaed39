"""Finds unguarded reads in a policy's expressions, for every kind that the policy matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policies.admissionpolicy.model import Expression, Policy
from policies.cel.syntax.ast import Node
from policies.cel.syntax.source import CompileError
from policies.lint.absence import Absence, AbsenceReader
from policies.lint.catalog import ResourceCatalog
from policies.lint.finding import LintFinding, LintSubject
from policies.lint.guards import NOTHING, Facts, Guards
from policies.lint.presence import FieldPresence
from policies.lint.typecheck import TypedPolicy


def unguarded(
    policy: Policy, subject: LintSubject, catalog: ResourceCatalog, typed: Sequence[TypedPolicy]
) -> Iterator[LintFinding]:
    """The findings missing-has and null-object, each place once. typed: the policy for each of its kinds."""
    absences: dict[tuple[str, int], Absence] = {}
    for plain in typed:
        for absence in _KindReview(policy, plain, catalog).absences():
            absences.setdefault((absence.expression.path, absence.offset), absence)
    for absence in absences.values():
        yield _finding(absence, subject, _nullable(policy))


class _KindReview:
    """The review of one policy for objects of one kind."""

    def __init__(self, policy: Policy, plain: TypedPolicy, catalog: ResourceCatalog) -> None:
        self._policy, self._plain = policy, plain
        self._typed = TypedPolicy(policy, plain.kind, catalog, deep=True) if policy.variables else plain
        expressions = {variable.name: variable.expression for variable in policy.variables}
        trees = {name: self._tree(expression) for name, expression in expressions.items()}
        self._guards = Guards({name: tree for name, tree in trees.items() if tree is not None})
        presence = FieldPresence(self._typed.object, self._typed.params)
        self._reader = AbsenceReader(self._guards, presence, self._typed.tests(), _nullable(policy), expressions)

    def absences(self) -> tuple[Absence, ...]:
        """All unguarded reads, in the order of the document."""
        policy = self._policy
        met = self._met()
        for condition in policy.match_conditions:
            self._read(condition.expression, self._met(but=condition.expression))
        for validation in policy.validations:
            self._read(validation.expression, met | self._demanded(but=validation.expression))
            if validation.message_expression is not None:
                tree = self._tree(validation.expression)
                failed = NOTHING if tree is None else self._guards.implied(tree, {}, truth=False)
                self._read(validation.message_expression, met | failed)
        for annotation in policy.audit_annotations:
            self._read(annotation.value_expression, met)
        for mutation in policy.mutations:
            self._read(mutation.expression, met, patch_types=True)
        return tuple(self._reader.absences.values())

    def _read(self, expression: Expression, facts: Facts, *, patch_types: bool = False) -> None:
        tree = self._tree(expression, patch_types=patch_types)
        if tree is not None:
            self._reader.read(tree, expression, facts)

    def _met(self, but: Expression | None = None) -> Facts:
        """The facts if all other match conditions are true. If one is false, errors of the others do not count."""
        trees = [
            self._tree(condition.expression)
            for condition in self._policy.match_conditions
            if condition.expression is not but
        ]
        return NOTHING.union(*(self._guards.implied(tree, {}, truth=True) for tree in trees if tree is not None)) - {
            "*"
        }

    def _demanded(self, but: Expression) -> Facts:
        """The facts that the other validations require. If one does not hold, they refuse the request anyway."""
        trees = [
            self._tree(validation.expression)
            for validation in self._policy.validations
            if validation.expression is not but
        ]
        return NOTHING.union(*(self._guards.demanded(tree) for tree in trees if tree is not None))

    def _tree(self, expression: Expression, *, patch_types: bool = False) -> Node | None:
        """The tree with the most precise types; None if the expression has type errors, which are other findings."""
        for typed in (self._typed, self._plain):
            tree = typed.tree(expression, patch_types=patch_types)
            if not isinstance(tree, CompileError):
                return tree
        return None


def _nullable(policy: Policy) -> frozenset[str]:
    """Which of the two objects may be null: `object` on DELETE, `oldObject` on CREATE."""
    operations = {name for rule in policy.match_constraints.resource_rules for name in rule.operations}
    nulls = {"DELETE": "object", "CREATE": "oldObject"}
    return frozenset(root for operation, root in nulls.items() if operations & {operation, "*"})


def _finding(absence: Absence, subject: LintSubject, nullable: frozenset[str]) -> LintFinding:
    operand, name = absence.operand, absence.name
    match absence.reason:
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
