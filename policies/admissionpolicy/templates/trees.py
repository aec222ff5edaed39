"""Makes syntax trees with unexpanded macros. They have no positions: their text is parsed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from policies.cel.syntax.ast import (
    Call,
    Entry,
    FieldValue,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.cel.syntax.lexer import KEYWORDS
from policies.cel.syntax.parser import RESERVED, parse
from policies.cel.syntax.sameness import children
from policies.cel.syntax.source import Source

_NOWHERE: dict[str, Any] = {"position": -1, "start": -1, "end": -1}


def literal(value: Any) -> Literal:
    """A constant."""
    return Literal(value, **_NOWHERE)


def ident(name: str) -> Ident:
    """A name."""
    return Ident(name, **_NOWHERE)


def call(function: str, *args: Node, target: Node | None = None) -> Call:
    """A call of a function, an operator or, with a target, a method or a macro."""
    return Call(function, target, list(args), **_NOWHERE)


def items(*elements: Node, optional: bool = False) -> ListLiteral:
    """A list. optional: whether its elements are optional."""
    marks = frozenset(range(len(elements)) if optional else ())
    return ListLiteral(list(elements), marks, **_NOWHERE)


def entries(*pairs: tuple[str, Node], optional: Sequence[str] = ()) -> MapLiteral:
    """A map. optional: the keys whose values are optional."""
    return MapLiteral([Entry(literal(key), value, key in optional, **_NOWHERE) for key, value in pairs], **_NOWHERE)


def pick(operand: Node, key: str) -> Node:
    """`operand.key`, or `operand['key']` if the key is no name."""
    if _is_name(key):
        return Select(operand, key, **_NOWHERE)
    return call("_[_]", operand, literal(key))


def optional(operand: Node, key: str) -> Node:
    """`operand.?key`, or `operand[?'key']` if the key is no name."""
    return call("_?._" if _is_name(key) else "_[?_]", operand, literal(key))


def present(operand: Node, key: str) -> Node:
    """`has(operand.key)`, or `'key' in operand` if the key is no name."""
    selected = pick(operand, key)
    return call("has", selected) if isinstance(selected, Select) else call("@in", literal(key), operand)


def has_value(value: Node) -> Node:
    """`value.hasValue()`."""
    return call("hasValue", target=value)


def otherwise(value: Node, default: Node) -> Node:
    """`value.orValue(default)`."""
    return call("orValue", default, target=value)


def negated(condition: Node) -> Node:
    """`!condition`."""
    if isinstance(condition, Call) and condition.function == "!_":
        return condition.args[0]
    return call("!_", condition)


def joined(operator: str, terms: Sequence[Node]) -> Node:
    """The terms with `_&&_`, `_||_` or `_+_` between them; there is at least one."""
    if len(terms) == 1:
        return terms[0]
    # The parser's balance for && and || (frames.py), and left to right for +.
    middle = len(terms) - 1 if operator == "_+_" else (len(terms) - 1) // 2 + 1
    return call(operator, joined(operator, terms[:middle]), joined(operator, terms[middle:]))


def filled(text: str, **nodes: Node) -> Node:
    """The tree of a text in which these names stand for trees."""
    return replaced(_parsed(text), nodes)


@lru_cache(256)
def _parsed(text: str) -> Node:
    return parse(Source(text), expand=False)


def replaced(node: Node, nodes: Mapping[str, Node]) -> Node:
    """A tree in which names are replaced by other trees, also where a macro declares them."""
    if isinstance(node, Ident):
        return nodes.get(node.name, node)
    return rebuilt(node, lambda child: replaced(child, nodes))


def below(node: Node) -> list[Node]:
    """The nodes directly below a node."""
    return [child for child in children(node) if child is not None]


def names(node: Node) -> Iterator[str]:
    """All names in a tree."""
    work = [node]
    while work:
        node = work.pop()
        if isinstance(node, Ident):
            yield node.name
        work += below(node)


def rebuilt(node: Node, visit: Callable[[Node], Node]) -> Node:
    """A node with other children."""
    place: dict[str, Any] = {"position": node.position, "start": node.start, "end": node.end}
    match node:
        case Select():
            return Select(visit(node.operand), node.field, node.test_only, **place)
        case Call():
            target = None if node.target is None else visit(node.target)
            return Call(node.function, target, [visit(argument) for argument in node.args], **place)
        case ListLiteral():
            return ListLiteral([visit(element) for element in node.elements], node.optional, **place)
        case MapLiteral():
            pairs = ((visit(entry.key), visit(entry.value), entry.optional) for entry in node.entries)
            return MapLiteral([Entry(*pair, **place) for pair in pairs], **place)
        case StructLiteral():
            values: Iterable[FieldValue] = (
                FieldValue(f.name, visit(f.value), f.optional, **place) for f in node.fields
            )
            return StructLiteral(node.type_name, list(values), **place)
        case _:
            return node


def is_true(node: Node) -> bool:
    """Whether it is the constant true."""
    return isinstance(node, Literal) and node.value is True


def is_false(node: Node) -> bool:
    """Whether it is the constant false."""
    return isinstance(node, Literal) and node.value is False


def _is_name(key: str) -> bool:
    return key.isascii() and key.isidentifier() and key not in KEYWORDS and key not in RESERVED
