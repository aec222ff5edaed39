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


class MacroError(Exception):
    """A macro does not accept its arguments."""

    def __init__(self, position: int, message: str, hint: str = "") -> None:
        super().__init__(position, message)
        self.issue = Issue(position, message, hint)


class TooLargeError(Exception):
    """Nested macros would make the tree too large."""


@dataclass(slots=True)
class Expansion:
    """One call of a macro. Its methods make nodes that replace it, with the place and the span of the call.

    copies: the nodes that all macros of the expression have copied.
    """

    copies: list[ast.Node]
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
        self, over: ast.Node, names: tuple[str, str | None], *parts: ast.Node, accumulator: str = ACCUMULATOR
    ) -> ast.Node:
        """A comprehension. parts: the first value, the condition, the step and the result."""
        body = tuple(self.args[1 if names[1] is None else 2 :])
        return self.made(ast.Comprehension, over, *names, accumulator, *parts, self.macro, body)

    def over(self) -> ast.Node:
        """The list or map that the macro was called on."""
        assert self.target is not None  # noqa: S101 # the table has these macros for methods only
        return self.target

    def names(self, count: int, complaint: str = "argument must be a simple name") -> tuple[str, str | None]:
        """The one or two names of variables among the arguments. Raises MacroError."""
        first, second = self.args[0], self.args[count - 1]
        name, name2 = _name(first, complaint), _name(second, complaint)
        if count == 2 and name == name2:
            hint = "the first variable is the index or key, the second the element or value; they need two names"
            raise MacroError(second.position, f"duplicate variable name: {name}", hint)
        for node, taken in ((first, name), (second, name2)):
            if taken in _TAKEN:
                hint = f"{taken} is kept for the macro itself; choose another name"
                raise MacroError(node.position, "iteration variable overwrites accumulator variable", hint)
        return name, name2 if count == 2 else None


def _name(node: ast.Node, complaint: str) -> str:
    if isinstance(node, ast.Ident):
        return node.name
    hint = "a macro's variable is a plain name of your choice, such as x in items.all(x, x > 0)"
    raise MacroError(node.position, complaint, hint)


def _has(e: Expansion) -> ast.Node:
    selected = e.args[0]
    if isinstance(selected, ast.Select):
        return e.made(ast.Select, selected.operand, selected.field, True)  # noqa: FBT003
    hint = "has() takes a field, as in has(object.metadata.labels); for a key of a map write 'key' in map"
    raise MacroError(selected.position, "invalid argument to has() macro", hint)


def _quantifier(e: Expansion) -> ast.Node:
    names, body, result = e.names(len(e.args) - 1), e.args[-1], e.ident()
    init: Value = e.macro == "all"
    match e.macro:
        case "all":
            condition = e.call("@not_strictly_false", e.ident())
            step = e.call("_&&_", e.ident(), body)
        case "exists":
            condition = e.call("@not_strictly_false", e.call("!_", e.ident()))
            step = e.call("_||_", e.ident(), body)
        case _:
            init, condition = 0, e.literal(value=True)
            step = e.call("_?_:_", body, e.call("_+_", e.ident(), e.literal(1)), e.ident())
            result = e.call("_==_", e.ident(), e.literal(1))
    return e.fold(e.over(), names, e.literal(init), condition, step, result)


def _where(e: Expansion, condition: list[ast.Node], step: ast.Node) -> ast.Node:
    """The step for elements that meet the optional condition. Other elements do not change the accumulator."""
    return e.call("_?_:_", condition[0], step, e.ident()) if condition else step


def _listed(e: Expansion, over: ast.Node, condition: list[ast.Node], item: ast.Node) -> ast.Node:
    """A list with an item for each element that meets the optional condition."""
    names = e.names(1, "argument is not an identifier")
    step = _where(e, condition, e.call("_+_", e.ident(), e.items(item)))
    return e.fold(over, names, e.items(), e.literal(value=True), step, e.ident())


def _transform(e: Expansion) -> ast.Node:
    first, second = e.names(2)
    init, step = e.made(ast.MapLiteral, []), e.call(MAP_INSERT, e.ident(), e.args[-1])
    if e.macro == "transformList":
        init, step = e.items(), e.call("_+_", e.ident(), e.items(e.args[-1]))
    elif e.macro == "transformMap":
        step = e.call(MAP_INSERT, e.ident(), e.ident(first), e.args[-1])
    step = _where(e, e.args[2:-1], step)
    return e.fold(e.over(), (first, second), init, e.literal(value=True), step, e.ident())


def _bound(e: Expansion, name: str, value: ast.Node, result: ast.Node) -> ast.Node:
    """A fold over an empty list, which only gives a value a name."""
    return e.fold(e.items(), (UNUSED, None), value, e.literal(value=False), e.ident(name), result, accumulator=name)


def _optional(e: Expansion) -> ast.Node:
    name = _name(e.args[0], f"{e.macro}() variable name must be a simple identifier")
    value = _bound(e, name, e.call("value", target=_copied(e, e.over())), e.args[1])
    then = e.call("optional.of", value) if e.macro == "optMap" else value
    return e.call("_?_:_", e.call("hasValue", target=e.over()), then, e.call("optional.none"))


def _sort_by(e: Expansion) -> ast.Node:
    if not isinstance(e.target, (ast.ListLiteral, ast.Select, ast.Ident, ast.Comprehension, ast.Call)):
        kinds = "list, identifier, comprehension, call or select expression"
        raise MacroError(e.over().position, f"sortBy can only be applied to a {kinds}")
    keys = _listed(e, e.ident(SORT_INPUT), e.args[1:-1], e.args[-1])
    return _bound(e, SORT_INPUT, e.target, e.call(SORT, keys, target=e.ident(SORT_INPUT)))


FUNCTIONS: dict[tuple[str, int], Callable[[Expansion], ast.Node]] = {("has", 1): _has}
METHODS: dict[tuple[str, int], Callable[[Expansion], ast.Node]] = {
    **{(name, count): _quantifier for name in ("all", "exists", "exists_one") for count in (2, 3)},
    ("existsOne", 3): _quantifier,
    **dict.fromkeys((("map", 2), ("map", 3)), lambda e: _listed(e, e.over(), e.args[1:-1], e.args[-1])),
    ("filter", 2): lambda e: _listed(e, e.over(), e.args[1:], e.args[0]),
    **{(f"transform{kind}", count): _transform for kind in ("List", "Map", "MapEntry") for count in (3, 4)},
    **dict.fromkeys((("optMap", 2), ("optFlatMap", 2)), _optional),
    ("sortBy", 2): _sort_by,
}
"""The macros with their numbers of arguments. They raise MacroError for arguments that they do not accept."""


def _copied(e: Expansion, root: ast.Node) -> ast.Node:
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
            node.position = e.position
        e.copies.append(node)
        if len(e.copies) > MOST_COPIES:
            raise TooLargeError(e.position)
    for node in copies.values():
        if isinstance(node, ast.Comprehension):
            node.body = tuple(copies[part] for part in node.body)
    return copies[root]
