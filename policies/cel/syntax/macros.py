"""The expansion of macros. Kubernetes declares only these, not `cel.bind` or `existsOne` with one variable.

The trees match the reference's node for node, because the cost of an evaluation depends on them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from policies.cel.syntax.ast import (
    CHILDREN,
    Call,
    Comprehension,
    Entry,
    FieldValue,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from policies.cel.syntax.source import Issue
from policies.cel.values import Value

ACCUMULATOR = "@result"
UNUSED = "#unused"
SORT_INPUT = "@__sortBy_input__"
MAP_INSERT = "cel.@mapInsert"
SORT = "@sortByAssociatedKeys"
_TAKEN = {ACCUMULATOR, "__result__"}
MOST_COPIES = 10_000
"""The nodes that the macros of one expression may copy. Of all expressions in tests and packs none copies over 21."""


class MacroError(Exception):
    """A macro does not accept its arguments."""

    def __init__(self, position: int, message: str, hint: str = "") -> None:
        super().__init__(position, message)
        self.issue = Issue(position, message, hint)


class TooLargeError(Exception):
    """Nested macros would make the tree too large."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        hint = "each optMap and optFlatMap doubles what it is called on; put a part into a variable"
        self.issue = Issue(position, "expression is too large when its macros are expanded", hint)


class Copies:
    """How many nodes macros have copied in one expression."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, count: int, position: int) -> None:
        """Count more of them. Raises TooLargeError."""
        self.count += count
        if self.count > MOST_COPIES:
            raise TooLargeError(position)


@dataclass(slots=True)
class Expansion:
    """One call of a macro. Its methods make nodes that replace it, with the place and the span of the call."""

    copies: Copies
    macro: str
    target: Node | None
    args: list[Node]
    position: int
    start: int
    end: int

    def literal(self, value: Value) -> Node:
        """A constant."""
        return Literal(value, position=self.position, start=self.start, end=self.end)

    def ident(self, name: str) -> Node:
        """A name."""
        return Ident(name, position=self.position, start=self.start, end=self.end)

    def accumulator(self) -> Node:
        """The value of the fold so far."""
        return self.ident(ACCUMULATOR)

    def items(self, *elements: Node) -> Node:
        """A list literal."""
        return ListLiteral(list(elements), position=self.position, start=self.start, end=self.end)

    def no_entries(self) -> Node:
        """An empty map."""
        return MapLiteral([], position=self.position, start=self.start, end=self.end)

    def call(self, function: str, *args: Node, target: Node | None = None) -> Node:
        """A call of a function or, with a target, of a method."""
        return Call(function, target, list(args), position=self.position, start=self.start, end=self.end)

    def fold(
        self,
        over: Node,
        variable: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
        *,
        variable2: str | None = None,
        accumulator: str = ACCUMULATOR,
    ) -> Node:
        """A comprehension."""
        return Comprehension(
            over,
            variable,
            variable2,
            accumulator,
            init,
            condition,
            step,
            result,
            self.macro,
            tuple(self.args[1 if variable2 is None else 2 :]),
            position=self.position,
            start=self.start,
            end=self.end,
        )

    def over(self) -> Node:
        """The list or map that the macro was called on."""
        assert self.target is not None  # noqa: S101 # the table has these macros for methods only
        return self.target

    def copy(self, node: Node) -> Node:
        """A copy of a tree."""
        return _duplicate(node, self.position, self.copies)


Expander = Callable[[Expansion], Node]


def expand(expansion: Expansion) -> Node | None:
    """The expansion of a call; None if it is not a macro. Raises MacroError."""
    table = FUNCTIONS if expansion.target is None else METHODS
    expander = table.get((expansion.macro, len(expansion.args)))
    return None if expander is None else expander(expansion)


def _name(node: Node, complaint: str) -> str:
    if isinstance(node, Ident):
        return node.name
    hint = "a macro's variable is a plain name of your choice, such as x in items.all(x, x > 0)"
    raise MacroError(node.position, complaint, hint)


def _free(name: str, node: Node) -> str:
    if name in _TAKEN:
        hint = f"{name} is kept for the macro itself; choose another name"
        raise MacroError(node.position, "iteration variable overwrites accumulator variable", hint)
    return name


def _variable(e: Expansion, complaint: str) -> str:
    return _free(_name(e.args[0], complaint), e.args[0])


def _variables(e: Expansion) -> tuple[str, str]:
    first, second = (_name(node, "argument must be a simple name") for node in e.args[:2])
    if first == second:
        hint = "the first variable is the index or key, the second the element or value; they need two names"
        raise MacroError(e.args[1].position, f"duplicate variable name: {first}", hint)
    return _free(first, e.args[0]), _free(second, e.args[1])


def _quantified(e: Expansion) -> tuple[str, str | None]:
    if len(e.args) == 2:
        return _variable(e, "argument must be a simple name"), None
    return _variables(e)


def _has(e: Expansion) -> Node:
    selected = e.args[0]
    if isinstance(selected, Select):
        return Select(selected.operand, selected.field, test_only=True, position=e.position, start=e.start, end=e.end)
    hint = "has() takes a field, as in has(object.metadata.labels); for a key of a map write 'key' in map"
    raise MacroError(selected.position, "invalid argument to has() macro", hint)


def _quantifier(e: Expansion, init: Value, condition: Node, step: Node, result: Node) -> Node:
    variable, variable2 = _quantified(e)
    return e.fold(e.over(), variable, e.literal(init), condition, step, result, variable2=variable2)


def _all(e: Expansion) -> Node:
    going_on = e.call("@not_strictly_false", e.accumulator())
    step = e.call("_&&_", e.accumulator(), e.args[-1])
    return _quantifier(e, True, going_on, step, e.accumulator())  # noqa: FBT003


def _exists(e: Expansion) -> Node:
    going_on = e.call("@not_strictly_false", e.call("!_", e.accumulator()))
    step = e.call("_||_", e.accumulator(), e.args[-1])
    return _quantifier(e, False, going_on, step, e.accumulator())  # noqa: FBT003


def _exists_one(e: Expansion) -> Node:
    one_more = e.call("_+_", e.accumulator(), e.literal(1))
    step = e.call("_?_:_", e.args[-1], one_more, e.accumulator())
    return _quantifier(e, 0, e.literal(True), step, e.call("_==_", e.accumulator(), e.literal(1)))  # noqa: FBT003


def _where(e: Expansion, condition: list[Node], step: Node) -> Node:
    """The step for elements that meet the optional condition. Other elements do not change the accumulator."""
    return e.call("_?_:_", condition[0], step, e.accumulator()) if condition else step


def _listed(e: Expansion, over: Node, condition: list[Node], item: Node) -> Node:
    """A list with an item for each element that meets the optional condition."""
    variable = _variable(e, "argument is not an identifier")
    step = _where(e, condition, e.call("_+_", e.accumulator(), e.items(item)))
    return e.fold(over, variable, e.items(), e.literal(True), step, e.accumulator())  # noqa: FBT003


def _map(e: Expansion) -> Node:
    return _listed(e, e.over(), e.args[1:-1], e.args[-1])


def _filter(e: Expansion) -> Node:
    return _listed(e, e.over(), e.args[1:], e.args[0])


def _transform(e: Expansion, init: Node, step: Callable[[str], Node]) -> Node:
    variable, variable2 = _variables(e)
    stepped = _where(e, e.args[2:-1], step(variable))
    whole = e.literal(True)  # noqa: FBT003
    return e.fold(e.over(), variable, init, whole, stepped, e.accumulator(), variable2=variable2)


def _transform_list(e: Expansion) -> Node:
    return _transform(e, e.items(), lambda _: e.call("_+_", e.accumulator(), e.items(e.args[-1])))


def _transform_map(e: Expansion) -> Node:
    return _transform(e, e.no_entries(), lambda key: e.call(MAP_INSERT, e.accumulator(), e.ident(key), e.args[-1]))


def _transform_map_entry(e: Expansion) -> Node:
    return _transform(e, e.no_entries(), lambda _: e.call(MAP_INSERT, e.accumulator(), e.args[-1]))


def _bound(e: Expansion, name: str, value: Node, result: Node) -> Node:
    """A fold over an empty list, which only gives a value a name."""
    never = e.literal(False)  # noqa: FBT003
    return e.fold(e.items(), UNUSED, value, never, e.ident(name), result, accumulator=name)


def _optional_value(e: Expansion) -> Node:
    name = _name(e.args[0], f"{e.macro}() variable name must be a simple identifier")
    return _bound(e, name, e.call("value", target=e.copy(e.over())), e.args[1])


def _if_value(e: Expansion, then: Node) -> Node:
    return e.call("_?_:_", e.call("hasValue", target=e.over()), then, e.call("optional.none"))


def _sort_by(e: Expansion) -> Node:
    if not isinstance(e.target, (ListLiteral, Select, Ident, Comprehension, Call)):
        kinds = "list, identifier, comprehension, call or select expression"
        raise MacroError(e.over().position, f"sortBy can only be applied to a {kinds}")
    keys = _listed(e, e.ident(SORT_INPUT), e.args[1:-1], e.args[-1])
    return _bound(e, SORT_INPUT, e.target, e.call(SORT, keys, target=e.ident(SORT_INPUT)))


FUNCTIONS: dict[tuple[str, int], Expander] = {("has", 1): _has}
METHODS: dict[tuple[str, int], Expander] = {
    ("all", 2): _all,
    ("all", 3): _all,
    ("exists", 2): _exists,
    ("exists", 3): _exists,
    ("exists_one", 2): _exists_one,
    ("exists_one", 3): _exists_one,
    ("existsOne", 3): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("optMap", 2): lambda e: _if_value(e, e.call("optional.of", _optional_value(e))),
    ("optFlatMap", 2): lambda e: _if_value(e, _optional_value(e)),
    ("sortBy", 2): _sort_by,
}


def _duplicate(root: Node, position: int, count: Copies) -> Node:
    """A copy of a tree, made without recursion because a tree may be deeper than Python's stack.

    As in the reference, entries of maps and fields of messages get the place of the macro.
    """
    copies: dict[Node, Node] = {root: copy(root)}
    work = [copies[root]]
    while work:
        node = work.pop()
        for name in CHILDREN[type(node)]:
            below = getattr(node, name)
            children = below if isinstance(below, list) else [] if below is None else [below]
            made = [copies.setdefault(child, copy(child)) for child in children]
            setattr(node, name, made if isinstance(below, list) else made[0] if made else None)
            work += made
        if isinstance(node, (Entry, FieldValue)):
            node.position = position
        count.add(1, position)
    for node in copies.values():
        if isinstance(node, Comprehension):
            node.body = tuple(copies[part] for part in node.body)
    return copies[root]
