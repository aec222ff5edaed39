"""Findings about constant or crashing expressions, unused names, messages that do not help, and compared quantities.

Expressions see a quantity as a text such as `500m`, whatever its author wrote. A comparison with a number fails, one
with another text goes letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from policies.admissionpolicy.builtin.table import QUANTITY
from policies.admissionpolicy.model import Expression, Policy
from policies.admissionpolicy.mutation.merge import atomics
from policies.admissionpolicy.schema import SchemaNode, built_in, definition
from policies.cel import types
from policies.cel.environment import Dialect
from policies.cel.kubernetes import admission
from policies.cel.program import compile_expression
from policies.cel.syntax import ast
from policies.cel.syntax.formatting import literal
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError
from policies.cel.types import Kind
from policies.cel.values import Uint
from policies.kubernetes.release import Release
from policies.lint.finding import LintFinding, LintSubject
from policies.lint.typecheck import ResourceCatalog, TypedPolicy

_FOLDED = 10_000  # the cost up to which constant expressions are computed
_OPERATIONS = ("add", "copy", "move", "remove", "replace", "test")
_SHORTEST = 20  # characters: a shorter message has no room for a remedy


def unused(policy: Policy, subject: LintSubject) -> Iterator[LintFinding]:
    """Findings about variables and params that no expression reads."""
    trees = [parse(expression.source) for expression in policy.expressions]
    names = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Ident)}
    read = [ast.variables(tree) for tree in trees]
    for index, variable in enumerate(policy.variables):
        if not any(known is None or variable.name in known for known in read):
            message = f"no expression reads variables.{variable.name}"
            remedy = "remove it, or use it"
            yield subject.at("unused-variable", ("spec", "variables", index, "name"), message, remedy)
    if policy.param_kind is not None and "params" not in names:
        message = f"no expression reads params, but without a {policy.param_kind.kind} the policy may have no effect"
        remedy = "remove paramKind, and paramRef from the bindings"
        yield subject.at("unused-params", ("spec", "paramKind"), message, remedy)


def futile(policy: Policy, subject: LintSubject, typed: Sequence[TypedPolicy]) -> Iterator[LintFinding]:
    """Findings about mutations that fail for each kind, or for each object."""
    schemas = [built_in(one.kind) for one in typed if one.kind is not None]
    roots = [schema.root for schema in schemas if schema is not None]
    known = roots if len(roots) == len(schemas) else []
    for expression in (mutation.expression for mutation in policy.mutations):
        for node in ast.walk(parse(expression.source)):
            if not isinstance(node, ast.StructLiteral):
                continue
            problems: list[tuple[ast.Node, str, str]] = []
            if node.type_name == "Object":
                refused = [set(atomics(_skeleton(node), root)) for root in known]
                remedy = "write the whole by a JSONPatch"
                problems += (
                    (node, f"an ApplyConfiguration may not write {path}, which is atomic", remedy)
                    for path in (sorted(set.intersection(*refused)) if refused else ())
                )
            elif node.type_name == "JSONPatch":
                problems += (one for field in node.fields for one in _futile(field, known))
            for at, message, remedy in problems:
                yield subject.within("type-error", expression, at.position, message, remedy)


def _skeleton(node: ast.Node) -> Any:
    """The maps and lists that literals write, whatever is in them."""
    if isinstance(node, ast.StructLiteral):
        return {field.name: _skeleton(field.value) for field in node.fields}
    return [_skeleton(item) for item in node.elements] if isinstance(node, ast.ListLiteral) else None


def _futile(field: ast.FieldValue, roots: Sequence[SchemaNode]) -> Iterator[tuple[ast.Node, str, str]]:
    """What is wrong with a literal operation or path of a patch."""
    text = field.value.value if isinstance(field.value, ast.Literal) else None
    if not isinstance(text, str) or field.name not in ("op", "path", "from"):
        return
    if field.name == "op":
        if text not in _OPERATIONS:
            yield field.value, f"there is no operation {text!r}", f"write one of {', '.join(_OPERATIONS)}"
    elif not text.startswith("/"):
        yield field.value, f"the path {text!r} does not begin with /", "write it as /spec/replicas"
    elif roots and not any(_leads(text, root) for root in roots):
        yield field.value, f"no field is at the path {text!r}", "look it up with kubectl explain"


def _leads(path: str, node: SchemaNode) -> bool:
    below: SchemaNode | None = node
    for step in path.split("/")[1:]:
        if below is None:
            return False
        is_index = below.item is not None and (step == "-" or step.isdecimal())
        below = below.item if is_index else below.child(step.replace("~1", "/").replace("~0", "~"))
    return below is not None


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


def panics(policy: Policy, subject: LintSubject, untyped: TypedPolicy, release: Release) -> Iterator[LintFinding]:
    """Findings about expressions on which kube-apiserver panics: `[?object[?'a']]`, `{?'k': object[?'a']}`.

    Its library assumes that the type of an optional element is an optional, but an optional index of dyn is dyn
    (mapLiteral and listLiteral in cel-go's cel/validator.go).
    """
    for expression in policy.expressions:
        tree = untyped.tree(expression)
        if isinstance(tree, CompileError):
            continue
        elements: list[ast.Node] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.ListLiteral):
                elements += [node.elements[index] for index in sorted(node.optional)]
            elif isinstance(node, ast.MapLiteral):
                elements += [entry.value for entry in node.entries if entry.optional]
        for element in elements:
            if element.type == types.DYN:
                message = f"kube-apiserver {release.name} panics on an optional element of unknown type"
                remedy = "select with .?name instead of [?'name'], or append .optMap(x, x)"
                yield subject.within("native-panic", expression, element.start, message, remedy)


def _demanded(tree: ast.Node) -> Iterator[ast.Node]:
    yield tree
    if isinstance(tree, ast.Call) and tree.function == "_&&_":
        for part in tree.args:
            yield from _demanded(part)


def _constant(expression: Expression, release: Release) -> bool | None:
    """The value of a constant expression; None if it reads something or fails."""
    known = admission(dialect=Dialect(release, stored=True))
    if any(isinstance(node, ast.Ident) and node.name in known.variables for node in ast.walk(parse(expression.source))):
        return None
    try:
        value = compile_expression(expression.text, known, types.BOOL).evaluate({}, limit=_FOLDED).value
    except CompileError:
        return None
    return value if isinstance(value, bool) else None


def _normal(text: str) -> str:
    return " ".join(text.split())


_ORDER = {f"_{sign}_": sign for sign in ("<", "<=", ">", ">=")}
_COMPARISONS = {**_ORDER, "_==_": "==", "_!=_": "!="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS = frozenset((Kind.INT, Kind.UINT, Kind.DOUBLE))
_ACCESS = ("_[_]", "_[?_]", "_?._")
_UNWRAPPED = ("orValue", "value", "or")


def compared_quantities(
    policy: Policy, subject: LintSubject, catalog: ResourceCatalog, typed: Sequence[TypedPolicy]
) -> Iterator[LintFinding]:
    """The findings quantity-comparison, each place once. typed: the policy for each of its kinds."""
    known: set[tuple[str, int]] = set()
    for plain in typed:
        reader = _QuantityReader(TypedPolicy(policy, plain.kind, catalog, deep=True))
        for expression in policy.expressions:
            for position, message, remedy in reader.comparisons(expression):
                if (expression.path, position) not in known:
                    known.add((expression.path, position))
                    yield subject.within("quantity-comparison", expression, position, message, remedy)


class _QuantityReader:
    def __init__(self, typed: TypedPolicy) -> None:
        self._typed = typed
        declared = [each for each in (typed.object, typed.params) if each is not None]
        self._definitions = {path: name for each in declared for path, name in each.definitions.items()}

    def comparisons(self, expression: Expression) -> Iterator[tuple[int, str, str]]:
        tree = self._typed.tree(expression)
        if isinstance(tree, CompileError):
            return
        live = self._typed.live_positions(expression)
        text = expression.source.text
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.function in _COMPARISONS and node.position in live:
                left, right = node.args
                sign = _COMPARISONS[node.function]
                if self._is_quantity(left):
                    yield from self._comparison(node, left, right, sign, text)
                elif self._is_quantity(right):
                    yield from self._comparison(node, right, left, _MIRRORED.get(sign, sign), text)

    def _comparison(
        self, node: ast.Node, found: ast.Node, other: ast.Node, sign: str, text: str
    ) -> Iterator[tuple[int, str, str]]:
        written = text[found.start : found.end]
        if other.type is not None and other.type.kind in _NUMBERS:
            what = "is never equal to a number" if sign in {"==", "!="} else "compared with a number, it is an error"
        elif sign in _MIRRORED and (
            (other.type is not None and other.type.kind is Kind.STRING) or self._is_quantity(other)
        ):
            what = 'texts are compared letter by letter, so "10" comes before "9"'
        else:
            return
        joint = " that " if what.startswith("is") else ": "
        message = f'{written} is a quantity, which expressions see as a text such as "8" or "500m"{joint}{what}'
        if _is_number(other):
            amount = _number(other)
        else:
            amount = text[other.start : other.end]
            amount = f"string({amount})" if other.type is not None and other.type.kind in _NUMBERS else amount
        corrected = f"quantity({_as_text(found, text)}).compareTo(quantity({amount})) {sign} 0"
        yield node.position, message, f"write {corrected}"

    def _is_quantity(self, node: ast.Node) -> bool:
        variable = self._variable(node)
        if variable is not None:
            return self._is_quantity(variable)
        match node:
            case ast.Select(test_only=False, operand=operand, field=field):
                return self._schema(operand, field).get("$ref") == QUANTITY or self._is_map(operand)
            case ast.Call(function=function, args=[operand, key]) if function in _ACCESS:
                named = key.value if isinstance(key, ast.Literal) and isinstance(key.value, str) else ""
                return self._schema(operand, named).get("$ref") == QUANTITY or self._is_map(operand)
            case ast.Call(function="_?_:_", args=[_, yes, no]):
                return self._is_quantity(yes) or self._is_quantity(no)
            case ast.Call(function=function, target=ast.Node() as target) if function in _UNWRAPPED:
                return self._is_quantity(target)
        return False

    def _is_map(self, node: ast.Node) -> bool:
        """Whether a node is a map of quantities, such as limits."""
        match node:
            case ast.Call(function="_?._", args=[operand, ast.Literal(value=str(field))]):
                return self._holds(operand, field)
            case ast.Call(function=function, target=ast.Node() as target) if function in _UNWRAPPED:
                return self._is_map(target)
        variable = self._variable(node)
        if variable is not None:
            return self._is_map(variable)
        return isinstance(node, ast.Select) and not node.test_only and self._holds(node.operand, node.field)

    def _holds(self, operand: ast.Node, field: str) -> bool:
        inner = self._schema(operand, field).get("additionalProperties")
        return isinstance(inner, dict) and inner.get("$ref") == QUANTITY

    def _schema(self, operand: ast.Node, field: str) -> dict[str, Any]:
        type_ = operand.type
        while type_ is not None and type_.name == "optional_type" and type_.parameters:
            type_ = type_.parameters[0]
        name = self._definitions.get(type_.name) if type_ is not None else None
        return {} if name is None else definition(name).get("properties", {}).get(field, {})

    def _variable(self, node: ast.Node) -> ast.Node | None:
        tree = self._typed.variables.get(ast.variable(node) or "")
        return None if tree is None or isinstance(tree, CompileError) else tree


def _as_text(node: ast.Node, text: str) -> str:
    """The text of a quantity, with a text where it falls back to a number."""
    if isinstance(node, ast.Call) and node.function == "orValue":
        (default,) = node.args
        if _is_number(default):
            return f"{text[node.start : default.start]}{_number(default)}{text[default.end : node.end]}"
    return text[node.start : node.end]


def _is_number(node: ast.Node) -> bool:
    return (
        isinstance(node, ast.Literal)
        and isinstance(node.value, int | float | Uint)
        and not isinstance(node.value, bool)
    )


def _number(node: ast.Node) -> str:
    return literal(str(node.value)) if isinstance(node, ast.Literal) else ""
