"""Properties of an expression that follow from the shape of its tree, before code is generated."""

from __future__ import annotations

from policies.cel.evaluation.dispatch import arguments
from policies.cel.evaluation.plan import CONVERSIONS
from policies.cel.generation.emitter import Path
from policies.cel.kubernetes import VARIABLES
from policies.cel.syntax.ast import Call, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from policies.cel.types import Kind

INDEX = ("_[_]", "_[?_]", "_?._")
"""The functions that read from their first argument."""


def is_optional(node: Node) -> bool:
    """Whether the value of a node is certainly an optional."""
    if isinstance(node, Call) and node.function in ("_?._", "_[?_]"):
        return True  # regardless of the type that the checker found
    return node.type is not None and node.type.kind is Kind.OPAQUE and node.type.name == "optional_type"


def is_variables(node: Node) -> bool:
    """Whether a node is `variables`, whose fields are computed when they are read."""
    return node.type == VARIABLES


def is_patch(node: Node) -> bool:
    """Whether a node is a part of `Object{}` or a JSONPatch."""
    return (
        node.type is not None
        and node.type.kind is Kind.STRUCT
        and node.type.name.split(".")[0] in ("Object", "JSONPatch")
    )


def is_constant(node: Node) -> bool:
    """Whether `plan.py` turns a node into a constant."""
    match node:
        case Literal():
            return True
        case Ident() | Select():
            return node.constant is not None
        case ListLiteral():
            return all(map(is_constant, node.elements))
        case MapLiteral():
            return all(is_constant(entry.key) and is_constant(entry.value) for entry in node.entries)
        case Call():
            given = arguments(node)
            return node.function in CONVERSIONS and len(given) == 1 and is_constant(given[0])
        case _:
            return False


def written_path(node: Node) -> Path | None:
    """A chain as written. The same text may mean different variables, so it only helps to find values worth keeping."""
    match node:
        case Ident():
            return (node.name,)
        case Select() if not node.test_only:
            above = written_path(node.operand)
            return None if above is None else (*above, node.field)
        case _:
            return None


def chooses(node: Node) -> bool:
    """Whether a chain begins with `a ? b : c`. Reading such a chain costs nothing."""
    while True:
        match node:
            case Select() if node.name is None and node.constant is None:
                node = node.operand
            case Call() if node.function in INDEX:
                node = arguments(node)[0]
            case Call():
                return node.function == "_?_:_"
            case _:
                return False
