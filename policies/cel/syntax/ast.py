"""The syntax tree of an expression. The checker writes the types onto it; nothing changes it afterwards.

`position` is where the reference reports an error of the node (the operator of `a + b`, the point of `a.b`). `start`
and `end` delimit its text. All are offsets in code points. Nodes that a macro makes have the span of the macro's call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as declare
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.cel.environment import Function, Overload
    from policies.cel.types import Type
    from policies.cel.values import Value


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """The base of all nodes. The checker sets `type`."""

    position: int
    start: int
    end: int
    type: Type | None = declare(default=None, init=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant: None, bool, int, Uint, float, str or bytes."""

    value: Value


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name. The checker sets `constant` (in a tuple) if it stands for a value, such as a type."""

    name: str
    constant: tuple[Value] | None = declare(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`; with `test_only`, `has(operand.field)`.

    If the whole is one declared name (`authorizer.requestResource`), the checker sets `name` or `constant`.
    """

    operand: Node
    field: str
    test_only: bool = False
    name: str | None = declare(default=None, init=False)
    constant: tuple[Value] | None = declare(default=None, init=False)


@dataclass(slots=True, eq=False)
class Call(Node):
    """`function(args)` or `target.function(args)`; operators have the reference's names: `_+_`, `_&&_`, `_[_]`.

    If the target is a namespace (`optional.none()`), the checker sets it to None and `function` to the full name. It
    also sets the overloads that the types allow.
    """

    function: str
    target: Node | None
    args: list[Node]
    declared: Function | None = declare(default=None, init=False)
    overloads: tuple[Overload, ...] = declare(default=(), init=False)

    @property
    def arguments(self) -> list[Node]:
        """The arguments, target first."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """`[a, ?b]`. `optional`: the indices of elements with a question mark."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry(Node):
    """One `key: value` or `?key: value` of a map."""

    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    """`{key: value}`."""

    entries: list[Entry]


@dataclass(slots=True, eq=False)
class FieldValue(Node):
    """One `name: value` or `?name: value` of a message."""

    name: str
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class StructLiteral(Node):
    """`Object.spec{name: value}`."""

    type_name: str
    fields: list[FieldValue]


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """The expansion of a macro: a fold over the elements of a list or the keys of a map.

    `macro`: the name of the macro. `body`: its arguments after the names of variables, for explanations. With
    `variable2`, the first variable is the index or key and the second the element or value.
    """

    range: Node
    variable: str
    variable2: str | None
    accumulator: str
    init: Node
    condition: Node
    step: Node
    result: Node
    macro: str
    body: tuple[Node, ...] = ()


CHILDREN: dict[type[Node], tuple[str, ...]] = {
    Literal: (),
    Ident: (),
    Select: ("operand",),
    Call: ("target", "args"),
    ListLiteral: ("elements",),
    MapLiteral: ("entries",),
    Entry: ("key", "value"),
    StructLiteral: ("fields",),
    FieldValue: ("value",),
    Comprehension: ("range", "init", "condition", "step", "result"),
}
"""The fields of each node that hold a node, None, or a list of nodes."""


def children(node: Node) -> list[Node]:
    """The nodes directly below a node, in the order of their fields."""
    below: list[Node] = []
    for name in CHILDREN[type(node)]:
        value = getattr(node, name)
        below += value if isinstance(value, list) else [] if value is None else [value]
    return below


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, from left to right."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children(current)))


def variable(node: Node) -> str | None:
    """The `x` of `variables.x`; None for any other node. Only the caller knows whether a macro hides `variables`."""
    match node:
        case Select(operand=Ident(name="variables"), field=name):
            return name
        case _:
            return None


def variables(tree: Node) -> frozenset[str] | None:
    """The variables of its policy that a tree reads, by `variables.x` or `variables.?x`; None if it may read any."""
    names, reads = set(), 0
    for node in walk(tree):
        match node:
            case Select(operand=Ident(name="variables"), field=name):
                names.add(name)
            case Call(function="_?._", args=[Ident(name="variables"), Literal(value=str(name))]):
                names.add(name)
            case Ident(name="variables" | ".variables"):
                reads += 1
                continue
            case _:
                continue
        reads -= 1
    return None if reads else frozenset(names)
