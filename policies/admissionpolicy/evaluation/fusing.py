"""What of a policy goes into the function that judges many policies together."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, Unit
from policies.cel.checking.validation import walk
from policies.cel.generation.fusion import Expression, Part
from policies.cel.program import Program
from policies.cel.reads import checked_tree
from policies.cel.syntax.ast import Ident, Node, Select

_NAMESPACE = "namespaceObject"


def part_of(compiled: CompiledPolicy, *, is_selective: bool) -> Part | None:
    """The expressions of a validating policy; None if only its own evaluation can tell that it has nothing to say.

    is_selective: whether it depends on more than the kind of a request, and on its Namespace, if the policy applies.
    """
    units = (*compiled.conditions, *compiled.validations)
    programs = [program for program in compiled.composition.programs.values() if isinstance(program, Program)]
    if compiled.annotations or not all(isinstance(unit.program, Program) for unit in units):
        return None
    if len(programs) < len(compiled.composition.programs):
        return None
    variables = _variables(compiled)
    conditions = [_expression(compiled, unit, variables) for unit in compiled.conditions]
    # Match conditions do not see the Namespace, not even through variables.
    if any(_NAMESPACE in text for condition in conditions for text in _texts(condition.tree, variables)):
        return None
    return Part(
        conditions,
        [_expression(compiled, unit, variables) for unit in compiled.validations],
        variables,
        is_selective or compiled.policy.param_kind is not None,
        lambda known: _is_silent(compiled, known),
        compiled.message_reads,
    )


def _is_silent(compiled: CompiledPolicy, known: Collection[str]) -> bool:
    return not compiled.speaks or compiled.has_cheap_messages(known)


def _variables(compiled: CompiledPolicy) -> dict[str, Expression]:
    variables: dict[str, Expression] = {}
    for variable in compiled.policy.variables:
        tree = checked_tree(variable.expression.source, compiled.composition)
        variables[variable.name] = Expression(tree, _shared_text(variable.expression.text, tree, variables))
    return variables


def _expression(compiled: CompiledPolicy, unit: Unit, variables: dict[str, Expression]) -> Expression:
    tree = checked_tree(unit.expression.source, compiled.composition)
    return Expression(tree, _shared_text(unit.expression.text, tree, variables))


def _shared_text(text: str, tree: Node, variables: dict[str, Expression]) -> str | None:
    """A text for an expression and those of its variables; None if it may mean something else in another policy."""
    names = sorted(set(_names(tree)))
    texts = [variables[name].text if name in variables else None for name in names]
    if None in texts or any(isinstance(node, Ident) and node.name == "params" for node in walk(tree)):
        return None
    return sha256(repr((text, list(zip(names, texts, strict=True)))).encode(errors="surrogatepass")).hexdigest()


def _names(tree: Node) -> Iterator[str]:
    """The variables that an expression reads."""
    for node in walk(tree):
        if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "variables":
            yield node.field


def _texts(tree: Node, variables: dict[str, Expression]) -> Iterator[str]:
    """The names that an expression reads, and those that its variables do."""
    pending, seen = [tree], set[str]()
    while pending:
        current = pending.pop()
        yield from (node.name for node in walk(current) if isinstance(node, Ident))
        new = {name for name in _names(current) if name in variables} - seen
        seen |= new
        pending += [variables[name].tree for name in new]
