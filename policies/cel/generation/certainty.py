"""The static types that generated code may rely on without checking the value.

The checker's types do not always hold at run time: `namespaceObject.metadata.creationTimestamp` is declared as a
timestamp but is a string, and a dyn may have determined a type variable. The types of literals, of most function
results, and of `request`, which this project builds itself, do hold.
"""

from __future__ import annotations

from policies.cel.syntax.ast import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from policies.cel.types import Kind, Type

_PASSED_ON = frozenset({"_[_]", "_[?_]", "_?._", "or", "orValue", "value", "dyn"})
_BUILDING = frozenset({"map", "filter", "transformList", "transformMap", "transformMapEntry"})


def trusted(node: Node) -> bool:  # noqa: PLR0911 - one return per kind of node
    """Whether the value of a node certainly has the class of its type. This does not cover the elements of a list."""
    match node:
        case Literal() | ListLiteral() | MapLiteral():
            return True
        case Select(test_only=True):
            return True
        case Select():
            return _of_request(node)
        case Call(function="_?_:_"):
            return trusted(node.args[1]) and trusted(node.args[2])
        case Call():
            return node.function not in _PASSED_ON and all(_definite(overload.result) for overload in node.overloads)
        case Comprehension():
            return node.macro in _BUILDING or node.macro.startswith(("all", "exists"))
        case _:
            return False


def _of_request(node: Node) -> bool:
    while isinstance(node, Select):
        node = node.operand
    return isinstance(node, Ident) and node.name == "request"


def _definite(result: Type) -> bool:
    return result.kind not in (Kind.DYN, Kind.PARAMETER)
