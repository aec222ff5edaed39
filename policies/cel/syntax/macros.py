"""The expansion of macros. Kubernetes declares only these, not `cel.bind` or `existsOne` with one variable.

The trees match the reference's node for node, because the cost of an evaluation depends on them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from policies.cel.syntax import ast
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
_SIMPLE = "argument must be a simple name"


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


@dataclass(slots=True)
class Copies:
    """How many nodes macros have copied in one expression."""

    count: int = 0


@dataclass(slots=True)
class Expansion:
    """One call of a macro. Its methods make nodes that replace it, with the place and the span of the call."""

    copies: Copies
    macro: str
    target: ast.Node | None
    args: list[ast.Node]
    position: int
    start: int
    end: int

    def made(self, kind: Callable[..., ast.Node], *parts: Any) -> ast.Node:
        """A node of a kind."""
        return kind(*parts, position=self.position, start=self.start, end=self.end)

    def literal(self, value: Value) -> ast.Node:
        """A constant."""
        return self.made(ast.Literal, value)

    def ident(self, name: str = ACCUMULATOR) -> ast.Node:
        """A name; without one the value of the fold so far."""
        return self.made(ast.Ident, name)

    def items(self, *elements: ast.Node) -> ast.Node:
        """A list literal."""
        return self.made(ast.ListLiteral, list(elements))

    def call(self, function: str, *args: ast.Node, target: ast.Node | None = None) -> ast.Node:
        """A call of a function or, with a target, of a method."""
        return self.made(ast.Call, function, target, list(args))

    def fold(
        self, over: ast.Node, variable: str, variable2: str | None, *parts: ast.Node, accumulator: str = ACCUMULATOR
    ) -> ast.Node:
        """A comprehension. parts: the first value, the condition, the step and the result."""
        body = tuple(self.args[1 if variable2 is None else 2 :])
        return self.made(ast.Comprehension, over, variable, variable2, accumulator, *parts, self.macro, body)

    def over(self) -> ast.Node:
        """The list or map that the macro was called on."""
        assert self.target is not None  # noqa: S101 # the table has these macros for methods only
        return self.target


Expander = Callable[[Expansion], ast.Node]


def expand(expansion: Expansion) -> ast.Node | None:
    """The expansion of a call; None if it is not a macro. Raises MacroError."""
    table = FUNCTIONS if expansion.target is None else METHODS
    expander = table.get((expansion.macro, len(expansion.args)))
    return None if expander is None else expander(expansion)


def _name(node: ast.Node, complaint: str) -> str:
    if isinstance(node, ast.Ident):
        return node.name
    hint = "a macro's variable is a plain name of your choice, such as x in items.all(x, x > 0)"
    raise MacroError(node.position, complaint, hint)


def _free(name: str, node: ast.Node) -> str:
    if name in _TAKEN:
        hint = f"{name} is kept for the macro itself; choose another name"
        raise MacroError(node.position, "iteration variable overwrites accumulator variable", hint)
    return name


def _variables(e: Expansion) -> tuple[str, str]:
    first, second = (_name(node, _SIMPLE) for node in e.args[:2])
    if first == second:
        hint = "the first variable is the index or key, the second the element or value; they need two names"
        raise MacroError(e.args[1].position, f"duplicate variable name: {first}", hint)
    return _free(first, e.args[0]), _free(second, e.args[1])


def _has(e: Expansion) -> ast.Node:
    selected = e.args[0]
    if isinstance(selected, ast.Select):
        return e.made(ast.Select, selected.operand, selected.field, True)  # noqa: FBT003
    hint = "has() takes a field, as in has(object.metadata.labels); for a key of a map write 'key' in map"
    raise MacroError(selected.position, "invalid argument to has() macro", hint)


def _quantifier(e: Expansion, init: Value, condition: ast.Node, step: ast.Node, result: ast.Node) -> ast.Node:
    names = (_free(_name(e.args[0], _SIMPLE), e.args[0]), None) if len(e.args) == 2 else _variables(e)
    return e.fold(e.over(), *names, e.literal(init), condition, step, result)


def _all(e: Expansion) -> ast.Node:
    going_on = e.call("@not_strictly_false", e.ident())
    return _quantifier(e, True, going_on, e.call("_&&_", e.ident(), e.args[-1]), e.ident())  # noqa: FBT003


def _exists(e: Expansion) -> ast.Node:
    going_on = e.call("@not_strictly_false", e.call("!_", e.ident()))
    return _quantifier(e, False, going_on, e.call("_||_", e.ident(), e.args[-1]), e.ident())  # noqa: FBT003


def _exists_one(e: Expansion) -> ast.Node:
    step = _where(e, e.args[-1:], e.call("_+_", e.ident(), e.literal(1)))
    return _quantifier(e, 0, e.literal(value=True), step, e.call("_==_", e.ident(), e.literal(1)))


def _where(e: Expansion, condition: list[ast.Node], step: ast.Node) -> ast.Node:
    """The step for elements that meet the optional condition. Other elements do not change the accumulator."""
    return e.call("_?_:_", condition[0], step, e.ident()) if condition else step


def _listed(e: Expansion, over: ast.Node, condition: list[ast.Node], item: ast.Node) -> ast.Node:
    """A list with an item for each element that meets the optional condition."""
    variable = _free(_name(e.args[0], "argument is not an identifier"), e.args[0])
    step = _where(e, condition, e.call("_+_", e.ident(), e.items(item)))
    return e.fold(over, variable, None, e.items(), e.literal(value=True), step, e.ident())


def _map(e: Expansion) -> ast.Node:
    return _listed(e, e.over(), e.args[1:-1], e.args[-1])


def _transform(e: Expansion, init: ast.Node, step: Callable[[str], ast.Node]) -> ast.Node:
    variable, variable2 = _variables(e)
    stepped = _where(e, e.args[2:-1], step(variable))
    return e.fold(e.over(), variable, variable2, init, e.literal(value=True), stepped, e.ident())


def _transform_list(e: Expansion) -> ast.Node:
    return _transform(e, e.items(), lambda _: e.call("_+_", e.ident(), e.items(e.args[-1])))


def _transform_map(e: Expansion) -> ast.Node:
    empty = e.made(ast.MapLiteral, [])
    return _transform(e, empty, lambda key: e.call(MAP_INSERT, e.ident(), e.ident(key), e.args[-1]))


def _transform_map_entry(e: Expansion) -> ast.Node:
    return _transform(e, e.made(ast.MapLiteral, []), lambda _: e.call(MAP_INSERT, e.ident(), e.args[-1]))


def _bound(e: Expansion, name: str, value: ast.Node, result: ast.Node) -> ast.Node:
    """A fold over an empty list, which only gives a value a name."""
    return e.fold(e.items(), UNUSED, None, value, e.literal(value=False), e.ident(name), result, accumulator=name)


def _optional_value(e: Expansion) -> ast.Node:
    name = _name(e.args[0], f"{e.macro}() variable name must be a simple identifier")
    return _bound(e, name, e.call("value", target=_duplicate(e.over(), e.position, e.copies)), e.args[1])


def _if_value(e: Expansion, then: ast.Node) -> ast.Node:
    return e.call("_?_:_", e.call("hasValue", target=e.over()), then, e.call("optional.none"))


def _sort_by(e: Expansion) -> ast.Node:
    if not isinstance(e.target, (ast.ListLiteral, ast.Select, ast.Ident, ast.Comprehension, ast.Call)):
        kinds = "list, identifier, comprehension, call or select expression"
        raise MacroError(e.over().position, f"sortBy can only be applied to a {kinds}")
    keys = _listed(e, e.ident(SORT_INPUT), e.args[1:-1], e.args[-1])
    return _bound(e, SORT_INPUT, e.target, e.call(SORT, keys, target=e.ident(SORT_INPUT)))


FUNCTIONS: dict[tuple[str, int], Expander] = {("has", 1): _has}
METHODS: dict[tuple[str, int], Expander] = {
    **dict.fromkeys((("all", 2), ("all", 3)), _all),
    **dict.fromkeys((("exists", 2), ("exists", 3)), _exists),
    **dict.fromkeys((("exists_one", 2), ("exists_one", 3), ("existsOne", 3)), _exists_one),
    **dict.fromkeys((("map", 2), ("map", 3)), _map),
    ("filter", 2): lambda e: _listed(e, e.over(), e.args[1:], e.args[0]),
    **dict.fromkeys((("transformList", 3), ("transformList", 4)), _transform_list),
    **dict.fromkeys((("transformMap", 3), ("transformMap", 4)), _transform_map),
    **dict.fromkeys((("transformMapEntry", 3), ("transformMapEntry", 4)), _transform_map_entry),
    ("optMap", 2): lambda e: _if_value(e, e.call("optional.of", _optional_value(e))),
    ("optFlatMap", 2): lambda e: _if_value(e, _optional_value(e)),
    ("sortBy", 2): _sort_by,
}


def _duplicate(root: ast.Node, position: int, count: Copies) -> ast.Node:
    """A copy of a tree, made without recursion because a tree may be deeper than Python's stack.

    As in the reference, entries of maps and fields of messages get the place of the macro.
    """
    copies: dict[ast.Node, ast.Node] = {root: copy(root)}
    work = [copies[root]]
    while work:
        node = work.pop()
        for name in ast.CHILDREN[type(node)]:
            below = getattr(node, name)
            children = below if isinstance(below, list) else [] if below is None else [below]
            made = [copies.setdefault(child, copy(child)) for child in children]
            setattr(node, name, made if isinstance(below, list) else made[0] if made else None)
            work += made
        if isinstance(node, (ast.Entry, ast.FieldValue)):
            node.position = position
        count.count += 1
        if count.count > MOST_COPIES:
            raise TooLargeError(position)
    for node in copies.values():
        if isinstance(node, ast.Comprehension):
            node.body = tuple(copies[part] for part in node.body)
    return copies[root]
