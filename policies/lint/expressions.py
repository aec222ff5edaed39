"""Findings about constant or crashing expressions, unused names, and messages that do not help."""

from __future__ import annotations

from collections.abc import Iterator

from policies.admissionpolicy.model import Expression, Policy
from policies.cel import types
from policies.cel.checking.validation import walk
from policies.cel.dialect import Dialect
from policies.cel.kubernetes import admission
from policies.cel.program import compile_expression
from policies.cel.syntax.ast import Call, Ident, ListLiteral, MapLiteral, Node, Select
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError
from policies.kubernetes.release import Release
from policies.lint.finding import LintFinding, LintSubject
from policies.lint.typecheck import TypedPolicy

_SHORTEST = 20  # characters: a shorter message has no room for a remedy


def unused(policy: Policy, subject: LintSubject) -> Iterator[LintFinding]:
    """Findings about variables and params that no expression reads."""
    nodes = [node for expression in policy.expressions for node in walk(parse(expression.source))]
    names = {node.name for node in nodes if isinstance(node, Ident)}
    read = {node.field for node in nodes if isinstance(node, Select) and _is_name(node.operand, "variables")}
    read |= {
        str(getattr(node.args[1], "value", ""))
        for node in nodes
        if isinstance(node, Call) and node.function in ("_?._", "_[_]", "_[?_]") and _is_name(node.args[0], "variables")
    }
    for index, variable in enumerate(policy.variables):
        if variable.name not in read:
            message = f"no expression reads variables.{variable.name}"
            remedy = "remove it, or use it"
            yield subject.at("unused-variable", ("spec", "variables", index, "name"), message, remedy)
    if policy.param_kind is not None and "params" not in names:
        message = f"no expression reads params, but without a {policy.param_kind.kind} the policy may have no effect"
        remedy = "remove paramKind, and paramRef from the bindings"
        yield subject.at("unused-params", ("spec", "paramKind"), message, remedy)


def unreachable(policy: Policy, subject: LintSubject, release: Release) -> Iterator[LintFinding]:
    """Findings about validations that are never false: constants, duplicates, and all behind a false condition."""
    for condition in policy.match_conditions:
        if _constant(condition.expression, release) is False:
            message = f"the match condition {condition.name} is always false, so nothing is ever validated"
            yield subject.within(
                "unreachable-validation", condition.expression, 0, message, "remove the condition, or the whole policy"
            )
    earlier: dict[str, str] = {}
    for validation in policy.validations:
        expression = validation.expression
        whole = _normal(expression.text)
        if _constant(expression, release) is True:
            remedy = "remove it, or test the object"
            yield subject.within("unreachable-validation", expression, 0, "this is always true", remedy)
        elif whole in earlier:
            message = f"{earlier[whole]} already requires the same"
            yield subject.within("unreachable-validation", expression, 0, message, "remove one of them")
        for part in _demanded(parse(expression.source)):
            text = _normal(expression.text[part.start : part.end])
            earlier.setdefault(text, expression.path)


def without_remedy(policy: Policy, subject: LintSubject) -> Iterator[LintFinding]:
    """Findings about validations without a message, or with one that is too short to contain a remedy."""
    for index, validation in enumerate(policy.validations):
        if validation.message_expression is not None or len(validation.message.strip()) >= _SHORTEST:
            continue
        text = validation.message.strip()
        if text:
            field, message = "message", f"the message {text!r} does not say what to do"
        else:
            field, message = "expression", "there is no message, so users see the expression"
        remedy = "write a message that says what is wrong and how to fix it"
        yield subject.at("no-remedy", ("spec", "validations", index, field), message, remedy)


def panics(policy: Policy, subject: LintSubject, untyped: TypedPolicy) -> Iterator[LintFinding]:
    """Findings about expressions on which kube-apiserver 1.36 panics: `[?object[?'a']]`, `{?'k': object[?'a']}`.

    Its library assumes that the type of an optional element is an optional, but an optional index of dyn is dyn
    (mapLiteral and listLiteral in cel-go's cel/validator.go).
    """
    mutations = {mutation.expression for mutation in policy.mutations}
    for expression in policy.expressions:
        tree = untyped.tree(expression, patch_types=expression in mutations)
        if isinstance(tree, CompileError):
            continue
        for element in (element for node in walk(tree) for element in _optional_elements(node)):
            if element.type == types.DYN:
                message = "kube-apiserver 1.36 panics on an optional element of unknown type"
                remedy = "select with .?name instead of [?'name'], or append .optMap(x, x)"
                yield subject.within("native-panic", expression, element.start, message, remedy)


def _optional_elements(node: Node) -> Iterator[Node]:
    if isinstance(node, ListLiteral):
        yield from (node.elements[index] for index in sorted(node.optional))
    elif isinstance(node, MapLiteral):
        yield from (entry.value for entry in node.entries if entry.optional)


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _demanded(tree: Node) -> Iterator[Node]:
    """The expression itself, and all operands that `&&` joins in it."""
    yield tree
    if isinstance(tree, Call) and tree.function == "_&&_":
        for part in tree.args:
            yield from _demanded(part)


def _constant(expression: Expression, release: Release) -> bool | None:
    """The value of a constant expression; None if it reads something or fails."""
    known = admission(dialect=Dialect(release, stored=True))
    if any(isinstance(node, Ident) and node.name in known.variables for node in walk(parse(expression.source))):
        return None
    try:
        value = compile_expression(expression.text, known, types.BOOL).evaluate({}).value
    except CompileError:
        return None
    return value if isinstance(value, bool) else None


def _normal(text: str) -> str:
    """A text with each run of white space replaced by one space."""
    return " ".join(text.split())
