"""Folds what is known of a tree: operations on constants, and optional values that are surely there or not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from policies.admissionpolicy.templates.trees import (
    below,
    call,
    ident,
    is_false,
    is_true,
    joined,
    literal,
    names,
    optional,
    otherwise,
    pick,
    rebuilt,
    replaced,
)
from policies.cel.environment import Environment
from policies.cel.kubernetes import admission
from policies.cel.program import compile_expression
from policies.cel.syntax.ast import Call, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from policies.cel.syntax.source import CompileError
from policies.cel.syntax.unparse import unparse

_OPTIONAL = ident("optional")
_ABSENT = call("none", target=_OPTIONAL)
_SCALARS = (bool, int, float, str)
_FOLDED = {"all": "_&&_", "exists": "_||_"}
_ALWAYS = frozenset({"spec", "template", "jobTemplate", "new", "metadata"})
_FEW = 4  # elements of a list that a quantifier is written out for


def folded(node: Node) -> Node:
    """A tree with the same value, or the same error, wherever the original has one."""
    node = rebuilt(node, folded)
    if isinstance(node, Select):
        return _selected(node, node.operand, node.field)
    if not isinstance(node, Call):
        return node
    simpler = _optionals(node) or _logic(node) or _steps(node) or _quantifier(node) or _text(node) or _size(node)
    return _constant(node) if simpler is None else folded(simpler)


def is_absent(node: Node) -> bool:
    """Whether it is `optional.none()`."""
    return _is(node, "none") and isinstance(node, Call) and _is_optional_namespace(node.target)


def _is(node: Node | None, function: str) -> bool:
    return isinstance(node, Call) and node.function == function


def _is_optional_namespace(node: Node | None) -> bool:
    return isinstance(node, Ident) and node.name == "optional"


def surely(node: Node | None) -> Node | None:
    """The value of `optional.of(value)`, or None."""
    if isinstance(node, Call) and node.function == "of" and _is_optional_namespace(node.target):
        return node.args[0]
    return None


def is_safe(node: Node) -> bool:
    """Whether a tree surely has no error: it is a constant, or reads only what every template has."""
    match node:
        case Ident() | Literal():
            return True
        case Select():
            return node.field in _ALWAYS and is_safe(node.operand)
        case Call(function="_?._" | "_[?_]" | "or" | "orValue" | "of" | "hasValue"):
            return all(map(is_safe, below(node)))
        case MapLiteral() | ListLiteral():
            return all(map(is_safe, below(node)))
        case _:
            return False


def _optionals(node: Call) -> Node | None:
    """A call of a method of an optional value about which something is known."""
    target = node.target
    if node.function not in ("or", "orValue", "value", "hasValue") or target is None:
        return None
    value = surely(target)
    if value is not None:
        there = literal(value=True) if is_safe(value) else None
        return {"or": target, "hasValue": there}.get(node.function, value)
    if is_absent(target):
        return {"or": node.args[0] if node.args else None, "orValue": node.args[0] if node.args else None}.get(
            node.function, literal(value=False) if node.function == "hasValue" else None
        )
    if node.function == "or" and is_absent(node.args[0]):
        return target
    return _of_alternative(node, target)


def _of_alternative(node: Call, target: Node) -> Node | None:
    """A method of `first.or(second)`, or of an optional field."""
    if isinstance(target, Call) and target.function == "or" and target.target is not None:
        value = surely(target.args[0])
        if value is not None:
            known = {"hasValue": literal(value=True) if is_safe(target) else None, "or": target}
            return known[node.function] if node.function in known else otherwise(target.target, value)
    if node.function == "value" and isinstance(target, Call) and target.target is None:
        if target.function == "_?._" and not _is_optional(target.args[0]):
            return pick(target.args[0], target.args[1].value) if isinstance(target.args[1], Literal) else None
        if target.function == "_[?_]" and not _is_optional(target.args[0]):
            return call("_[_]", *target.args)
    return None


def _is_optional(node: Node) -> bool:
    """Whether a node that is selected from is an optional value, as far as its form tells."""
    while isinstance(node, (Select, Call)):
        if isinstance(node, Call):
            if node.function in ("_?._", "_[?_]", "or", "optMap", "optFlatMap"):
                return True
            if node.function != "_[_]" or node.target is not None:
                return False
        node = node.operand if isinstance(node, Select) else node.args[0]
    return False


def _logic(node: Call) -> Node | None:
    """An operation on booleans, some of them constant."""
    if node.target is not None:
        return None
    args = node.args
    match node.function:
        case "_&&_" | "_||_":
            ends, neutral = (is_false, is_true) if node.function == "_&&_" else (is_true, is_false)
            for one, other in (args, args[::-1]):
                if ends(one):
                    return one
                if neutral(one):
                    return other
        case "_?_:_":
            if is_true(args[0]) or is_false(args[0]):
                return args[1] if is_true(args[0]) else args[2]
        case "!_" if isinstance(args[0], Call) and args[0].function == "!_":
            return args[0].args[0]
        case _:
            pass
    return None


def _text(node: Call) -> Node | None:
    """A sum in which two constant texts stand beside each other."""
    if node.function != "_+_" or node.target is not None:
        return None
    left, right = node.args
    if isinstance(right, Call) and right.function == "_+_" and _is_text(_first(right)):
        return call("_+_", call("_+_", left, right.args[0]), right.args[1])
    if isinstance(left, Call) and left.function == "_+_" and _is_text(left.args[1]) and _is_text(right):
        return call("_+_", left.args[0], call("_+_", left.args[1], right))
    return None


def _size(node: Call) -> Node | None:
    """The size of a list that is written out."""
    target = node.target
    if node.function == "size" and isinstance(target, ListLiteral) and not target.optional:
        return literal(len(target.elements))
    return None


def _first(node: Node) -> Node:
    while isinstance(node, Call) and node.function == "_+_" and node.target is None:
        node = node.args[0]
    return node


def _is_text(node: Node) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, str)


def _steps(node: Call) -> Node | None:
    """A key of a map whose entries are written out."""
    key = node.args[-1] if node.args else None
    if node.function == "has" and isinstance(key, Select) and isinstance(key.operand, MapLiteral):
        known = _entries(key.operand)
        return None if known is None else literal(value=key.field in known)
    if node.function in ("_[_]", "_[?_]", "_?._") and isinstance(key, Literal) and isinstance(key.value, str):
        return _optional_entry(node, key.value)
    if node.function == "_[_]" and isinstance(key, Literal) and key.value == 0:
        return _group(node.args[0])
    return None


def _group(node: Node) -> Node | None:
    """The group in `('group/' + version).split('/')[0]`."""
    if not (isinstance(node, Call) and node.function == "split" and isinstance(node.target, Call)):
        return None
    whole, separator = node.target, node.args[0]
    if whole.function != "_+_" or not isinstance(separator, Literal) or not isinstance(separator.value, str):
        return None
    first = whole.args[0]
    if not (isinstance(first, Literal) and isinstance(first.value, str) and separator.value in first.value):
        return None
    return literal(first.value.split(separator.value)[0]) if separator.value else None


def _optional_entry(node: Call, key: str) -> Node | None:
    known = _entries(node.args[0])
    if known is None:
        value = surely(node.args[0])
        if value is not None and node.function != "_[_]":
            return optional(value, key)
        return _ABSENT if is_absent(node.args[0]) else None
    if node.function == "_[_]":
        return known.get(key)
    return call("of", known[key], target=_OPTIONAL) if key in known else _ABSENT


def _selected(node: Select, operand: Node, field: str) -> Node:
    known = _entries(operand)
    return node if known is None or field not in known else known[field]


def _entries(node: Node) -> Mapping[str, Node] | None:
    """The entries of a map literal with constant keys, none of them optional."""
    if not isinstance(node, MapLiteral) or any(entry.optional for entry in node.entries):
        return None
    keys = [entry.key.value if isinstance(entry.key, Literal) else None for entry in node.entries]
    if not all(isinstance(key, str) for key in keys):
        return None
    return {str(key): entry.value for key, entry in zip(keys, node.entries, strict=True)}


def _quantifier(node: Call) -> Node | None:
    """`all` or `exists` over a few maps that are written out, such as owner references."""
    operator, over = _FOLDED.get(node.function), node.target
    if operator is None or not isinstance(over, ListLiteral) or over.optional or len(node.args) != 2:
        return None
    variable, body = node.args
    if not isinstance(variable, Ident) or not 0 < len(over.elements) <= _FEW:
        return None
    if not all(isinstance(element, MapLiteral) for element in over.elements) or _declares(body, variable.name):
        return None
    return joined(operator, [replaced(body, {variable.name: element}) for element in over.elements])


def _declares(node: Node, name: str) -> bool:
    """Whether a macro in the tree declares this name again."""
    if isinstance(node, Call) and node.target is not None:
        declared = [argument.name for argument in node.args[:2] if isinstance(argument, Ident)]
        if len(node.args) > 1 and name in declared:
            return True
    return any(_declares(child, name) for child in below(node))


def _constant(node: Call) -> Node:
    """The value of a call without variables, if it is a scalar; else the call."""
    if (
        node.function == "dyn"
        or _is_optional_namespace(node.target)
        or any(name not in _bound(node) for name in names(node))
    ):
        return node
    value = _value(unparse(node))
    return node if value is None else literal(value[0])


def _bound(node: Node) -> frozenset[str]:
    """The names that macros declare in a tree, and `optional`."""
    found = {"optional"}
    work = [node]
    while work:
        node = work.pop()
        if isinstance(node, Call) and node.target is not None and len(node.args) > 1:
            found |= {argument.name for argument in node.args[:2] if isinstance(argument, Ident)}
        work += below(node)
    return frozenset(found)


@lru_cache(1)
def _environment() -> Environment:
    return admission()


@lru_cache(1024)
def _value(text: str) -> tuple[bool | int | float | str | None] | None:
    try:
        program = compile_expression(text, _environment())
    except CompileError:
        return None
    evaluation = program.evaluate({})
    if evaluation.error is not None or type(evaluation.value) not in _SCALARS:
        return None
    value = evaluation.value
    return (value,) if isinstance(value, _SCALARS) else None
