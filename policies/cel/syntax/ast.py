"""The syntax tree of an expression. The checker writes the types onto it; nothing changes it afterwards.

`position` is where the reference places an error of that node (of `a + b` the operator, of `a.b` the point);
`start` and `end` are the text that it was written as. All are offsets in code points.
A node that a macro makes has the span of the macro's call.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as declare
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.cel.function import Function, Overload
    from policies.cel.types import Type
    from policies.cel.values import Value


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """What all nodes have. `type` is set by the checker."""

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
    """A name. The checker sets `constant` (in a tuple) where it stands for a value, such as a type."""

    name: str
    constant: tuple[Value] | None = declare(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`; with `test_only`, what `has(operand.field)` becomes.

    Where the whole is one declared name (`authorizer.requestResource`), the checker sets `name` or `constant`.
    """

    operand: Node
    field: str
    test_only: bool = False
    name: str | None = declare(default=None, init=False)
    constant: tuple[Value] | None = declare(default=None, init=False)


@dataclass(slots=True, eq=False)
class Call(Node):
    """`function(args)` or `target.function(args)`; operators have the reference's names: `_+_`, `_&&_`, `_[_]`.

    The checker replaces a target that is a namespace (`optional.none()`) by None and the name by the whole one,
    and sets the overloads that the types allow.
    """

    function: str
    target: Node | None
    args: list[Node]
    declared: Function | None = declare(default=None, init=False)
    overloads: tuple[Overload, ...] = declare(default=(), init=False)


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """`[a, ?b]`; `optional` are the indices of elements with a question mark."""

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
    """What the macros become: a fold over the elements of a list or the keys of a map.

    `macro` is the name of the macro that was written; `body` are its arguments after the names of variables,
    for explanations.
    With `variable2`, both the index or key and the element or value are named.
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
