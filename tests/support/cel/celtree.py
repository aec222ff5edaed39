"""Syntax trees as text, which tests compare."""

from policies.cel.syntax.ast import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source


def tree(text: str) -> str:
    """The tree of an expression, without positions."""
    return show(parse(Source(text)))


def show(node: Node) -> str:
    """A node and what is below it."""
    match node:
        case Literal():
            return f"{type(node.value).__name__}:{node.value!r}"
        case Ident():
            return node.name
        case Select():
            return f"{show(node.operand)}.{node.field}{'?' if node.test_only else ''}"
        case Call():
            target = f"{show(node.target)}." if node.target else ""
            return f"{target}{node.function}({', '.join(map(show, node.args))})"
        case Comprehension():
            names = f"{node.variable}, {node.variable2}" if node.variable2 else node.variable
            parts = (node.range, node.init, node.condition, node.step, node.result)
            return f"{node.macro}[{names} -> {node.accumulator}: {'; '.join(map(show, parts))}]"
        case _:
            return _literal(node)


def _literal(node: Node) -> str:
    match node:
        case ListLiteral():
            marked = [("?" if at in node.optional else "") + show(one) for at, one in enumerate(node.elements)]
            return f"[{', '.join(marked)}]"
        case MapLiteral():
            entries = [f"{'?' if one.optional else ''}{show(one.key)}: {show(one.value)}" for one in node.entries]
            return f"{{{', '.join(entries)}}}"
        case StructLiteral():
            fields = [f"{'?' if one.optional else ''}{one.name}: {show(one.value)}" for one in node.fields]
            return f"{node.type_name}{{{', '.join(fields)}}}"
        case _:
            raise TypeError(node)
