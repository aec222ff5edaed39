"""Findings about quantities that are compared with numbers, or as texts.

Expressions see a quantity as a text such as `500m`, whatever its author wrote. A comparison with a number fails, one
with another text goes letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from policies.admissionpolicy.builtin.table import QUANTITY
from policies.admissionpolicy.model import Expression, Policy
from policies.admissionpolicy.schema import definition
from policies.cel.checking.validation import walk
from policies.cel.syntax.ast import Call, Ident, Literal, Node, Select
from policies.cel.syntax.source import CompileError
from policies.cel.syntax.unparse import literal
from policies.cel.types import Kind
from policies.cel.values import Uint
from policies.lint.catalog import ResourceCatalog
from policies.lint.finding import LintFinding, LintSubject
from policies.lint.typecheck import TypedPolicy

_ORDER = {f"_{sign}_": sign for sign in ("<", "<=", ">", ">=")}
_COMPARISONS = {**_ORDER, "_==_": "==", "_!=_": "!="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS = frozenset((Kind.INT, Kind.UINT, Kind.DOUBLE))
_ACCESS = ("_[_]", "_[?_]", "_?._")
_UNWRAPPED = ("orValue", "value", "or")


def compared(
    policy: Policy, subject: LintSubject, catalog: ResourceCatalog, typed: Sequence[TypedPolicy]
) -> Iterator[LintFinding]:
    """The findings quantity-comparison, each place once. typed: the policy for each of its kinds."""
    mutations = {mutation.expression for mutation in policy.mutations}
    known: set[tuple[str, int]] = set()
    for plain in typed:
        reader = _QuantityReader(TypedPolicy(policy, plain.kind, catalog, deep=True))
        for expression in policy.expressions:
            for position, message, remedy in reader.comparisons(expression, patch_types=expression in mutations):
                if (expression.path, position) not in known:
                    known.add((expression.path, position))
                    yield subject.within("quantity-comparison", expression, position, message, remedy)


class _QuantityReader:
    """Finds the comparisons in the expressions of a policy for objects of one kind."""

    def __init__(self, typed: TypedPolicy) -> None:
        self._typed = typed
        declared = [each for each in (typed.object, typed.params) if each is not None]
        self._definitions = {path: name for each in declared for path, name in each.definitions.items()}

    def comparisons(self, expression: Expression, *, patch_types: bool) -> Iterator[tuple[int, str, str]]:
        """The places of wrong comparisons, each with what is wrong and what to write."""
        tree = self._typed.tree(expression, patch_types=patch_types)
        if isinstance(tree, CompileError):
            return
        live = self._typed.live_positions(expression)
        text = expression.source.text
        for node in walk(tree):
            if isinstance(node, Call) and node.function in _COMPARISONS and node.position in live:
                left, right = node.args
                sign = _COMPARISONS[node.function]
                if self._is_quantity(left):
                    yield from self._comparison(node, left, right, sign, text)
                elif self._is_quantity(right):
                    yield from self._comparison(node, right, left, _MIRRORED.get(sign, sign), text)

    def _comparison(self, node: Node, found: Node, other: Node, sign: str, text: str) -> Iterator[tuple[int, str, str]]:
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
        corrected = f"quantity({_as_text(found, text)}).compareTo({_quantity(other, text)}) {sign} 0"
        yield node.position, message, f"write {corrected}"

    def _is_quantity(self, node: Node) -> bool:
        variable = self._variable(node)
        if variable is not None:
            return self._is_quantity(variable)
        match node:
            case Select(test_only=False, operand=operand, field=field):
                return self._schema(operand, field).get("$ref") == QUANTITY or self._is_map(operand)
            case Call(function=function, args=[operand, key]) if function in _ACCESS:
                named = key.value if isinstance(key, Literal) and isinstance(key.value, str) else ""
                return self._schema(operand, named).get("$ref") == QUANTITY or self._is_map(operand)
            case Call(function="_?_:_", args=[_, yes, no]):
                return self._is_quantity(yes) or self._is_quantity(no)
            case Call(function=function, target=Node() as target) if function in _UNWRAPPED:
                return self._is_quantity(target)
        return False

    def _is_map(self, node: Node) -> bool:
        """Whether a node is a map of quantities, such as limits."""
        match node:
            case Call(function="_?._", args=[operand, Literal(value=str(field))]):
                return self._holds(operand, field)
            case Call(function=function, target=Node() as target) if function in _UNWRAPPED:
                return self._is_map(target)
        variable = self._variable(node)
        if variable is not None:
            return self._is_map(variable)
        return isinstance(node, Select) and not node.test_only and self._holds(node.operand, node.field)

    def _holds(self, operand: Node, field: str) -> bool:
        inner = self._schema(operand, field).get("additionalProperties")
        return isinstance(inner, dict) and inner.get("$ref") == QUANTITY

    def _schema(self, operand: Node, field: str) -> dict[str, Any]:
        """The OpenAPI schema of a field of an operand; empty if it is not known."""
        type_ = operand.type
        while type_ is not None and type_.name == "optional_type" and type_.parameters:
            type_ = type_.parameters[0]
        name = self._definitions.get(type_.name) if type_ is not None else None
        return {} if name is None else definition(name).get("properties", {}).get(field, {})

    def _variable(self, node: Node) -> Node | None:
        """The expression of a variable, if the node is one."""
        if not (isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "variables"):
            return None
        tree = self._typed.variables.get(node.field)
        return None if tree is None or isinstance(tree, CompileError) else tree


def _as_text(node: Node, text: str) -> str:
    """The text of a quantity, with a text where it falls back to a number."""
    if isinstance(node, Call) and node.function == "orValue":
        (default,) = node.args
        if _is_number(default):
            return f"{text[node.start : default.start]}{_number(default)}{text[default.end : node.end]}"
    return text[node.start : node.end]


def _quantity(node: Node, text: str) -> str:
    if _is_number(node):
        return f"quantity({_number(node)})"
    written = text[node.start : node.end]
    is_number = node.type is not None and node.type.kind in _NUMBERS
    return f"quantity(string({written}))" if is_number else f"quantity({written})"


def _is_number(node: Node) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, int | float | Uint) and not isinstance(node.value, bool)


def _number(node: Node) -> str:
    return literal(str(node.value)) if isinstance(node, Literal) else ""
