"""Macros in generated code: each is a `for` statement that charges the same as the reference's fold.

Per element `all` costs 3 (its condition reads the result and calls `@not_strictly_false`, its step reads the result),
`exists` 4, building a list 12, or 2 if of constants. After the element that decides, the reference evaluates the
condition once more if another element follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from policies.cel.checking.validation import children
from policies.cel.evaluation.dispatch import arguments
from policies.cel.generation.certainty import trusted
from policies.cel.generation.emitter import NodeEmitter, UnsupportedError
from policies.cel.syntax.ast import Call, Comprehension, Ident, ListLiteral, Node, Select
from policies.cel.syntax.macros import ACCUMULATOR
from policies.cel.types import Kind

_ALL, _EXISTS = 3, 4
_LOOK_AGAIN = {"all": 2, "exists": 3}


def generate_loop(generator: NodeEmitter, node: Comprehension) -> str:
    """An expression for the value of a macro."""
    binds = node.accumulator != ACCUMULATOR
    return _binding(generator, node) if binds else _LOOPS[node.macro](generator, node)


@contextmanager
def _loop(generator: NodeEmitter, node: Comprehension) -> Iterator[str]:
    """The `for` statement; yields the name of the iterator."""
    iterator = generator.atom(f"iter({_range(generator, node)})")
    first, second = generator.temporary(), generator.temporary()
    target = first if node.variable2 is None else f"{first}, {second}"
    names = {node.variable: first} if node.variable2 is None else {node.variable: first, node.variable2: second}
    with generator.block(f"for {target} in {iterator}:"):
        generator.scopes.append(names)
        start = len(generator.lines)
        yield iterator
        generator.settle()
        if not generator.surely_costs(start):  # it would never look at the clock; the exact evaluator counts turns
            raise UnsupportedError
        looks = "guard(cost, limit, expired)"
        if id(node) in generator.certain:
            looks = f"certain_guard(cost, limit, expired, {generator.charged})"
        generator.line(f"if cost > mark: mark = {looks}")
        generator.scopes.pop()


def _range(generator: NodeEmitter, node: Comprehension) -> str:
    expression = generator.value(node.range)
    if node.variable2 is None:
        return (
            expression
            if _kind(node.range) in (Kind.LIST, Kind.MAP) and trusted(node.range)
            else f"elements({expression})"
        )
    return f"pairs({expression})"


def _quantifier(generator: NodeEmitter, node: Comprehension) -> str:
    """`all` ends at the first false, `exists` at the first true."""
    universal = node.macro == "all"
    result = generator.atom(repr(universal))
    with _loop(generator, node) as iterator:
        generator.charge(_ALL if universal else _EXISTS)
        condition, *_ = generator.condition(node.body[0])
        with generator.block(f"if not ({condition}):" if universal else f"if {condition}:"):
            generator.line(f"{result} = {not universal}")
            generator.line(f"if next({iterator}, ABSENT) is not ABSENT: cost += {_LOOK_AGAIN[node.macro]}")
            generator.line("break")
    generator.charge(1)
    return result


def _exactly_one(generator: NodeEmitter, node: Comprehension) -> str:
    count = generator.atom("0 + 0")
    with _loop(generator, node):
        condition, *_ = generator.condition(node.body[0])
        with generator.block(f"if {condition}:"):
            generator.charge(2)
            generator.line(f"{count} += 1")
    generator.charge(2)
    return f"({count} == 1)"


def _building(generator: NodeEmitter, node: Comprehension) -> str:
    """`map`, `filter` and similar macros. The tree shows what the step appends and what it costs."""
    result = generator.atom("[]" if _kind(node.init) is Kind.LIST else "{}")
    with _loop(generator, node):
        _conditionally(generator, node.step, lambda step: _append(generator, step, result))
    generator.charge(1)
    return result


def _kind(node: Node) -> Kind:
    return node.type.kind if node.type is not None else Kind.DYN


def _conditionally(generator: NodeEmitter, step: Node, append: Callable[[Call], None]) -> None:
    assert isinstance(step, Call)  # noqa: S101 - macros are made so
    if step.function != "_?_:_":
        append(step)
        return
    condition, facts, _ = generator.condition(step.args[0])
    with generator.block(f"if {condition}:", facts):
        chosen = step.args[1]
        assert isinstance(chosen, Call)  # noqa: S101 - macros are made so
        append(chosen)


def _append(generator: NodeEmitter, step: Call, result: str) -> None:
    """`@result + [x]` or `cel.@mapInsert(@result, ...)`: costs 1 to read the result and 1 for the call."""
    generator.charge(2)
    if step.function == "_+_":
        generator.line(f"{result} += {generator.value(step.args[1])}")
        return
    given = [generator.value(argument) for argument in step.args[1:]]
    function = "insert" if len(given) == 2 else "insert_all"  # key and value, or a map
    generator.line(f"{function}({result}, {', '.join(given)})")


def _binding(generator: NodeEmitter, node: Comprehension) -> str:
    """A name for a value in `optMap`, `optFlatMap` and `sortBy`. It must be used, as its first use incurs the cost."""
    if not _surely_used(node.result, node.accumulator):
        raise UnsupportedError
    name = generator.atom(generator.value(node.init))
    generator.scopes.append({node.accumulator: name})
    result = generator.value(node.result)
    generator.scopes.pop()
    return result


def _surely_used(node: Node, name: str) -> bool:
    """Whether a name is read for all values: not only behind `&&` or `?:`, or in a macro."""
    if isinstance(node, Ident):
        return node.name == name
    below = children(node)
    if isinstance(node, Comprehension):
        below = (node.range,)
    elif isinstance(node, Call) and node.function in ("_&&_", "_||_", "_?_:_", "or", "orValue"):
        below = below[:1]
    return any(_surely_used(child, name) for child in below)


_WHOLE = frozenset({"_&&_", "_||_", "!_", "_?_:_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
"""Calls whose code computes each argument before that of the next one begins."""


def certain_loops(tree: Node) -> frozenset[int]:
    """The ids of the macros before which the code computes everything that the reference computes before them.

    Elsewhere an operand may be left to the end of an expression: in `f(a.b, l.all(...))` the loop runs first. Should
    `a.b` fail, the reference never runs the loop. So only in these macros is the cost limit certainly exceeded as soon
    as the sum of the costs is above it, except for what the code charges early.
    """
    return frozenset(id(node) for node in _certain(tree))


def _certain(node: Node) -> Iterator[Comprehension]:
    below: Iterable[Node] = ()
    match node:
        case Comprehension() if node.macro in _LOOPS and node.macro != "sortBy" and node.accumulator == ACCUMULATOR:
            yield node
            below = (node.range, *_first_parts(node))
        case Call() if node.function in _WHOLE:
            below = node.args
        case Call():
            below = arguments(node)[:1]
        case Select():
            below = (node.operand,)
        case ListLiteral():
            below = node.elements[:1]
        case _:
            pass
    for child in below:
        yield from _certain(child)


def _first_parts(node: Comprehension) -> Iterator[Node]:
    """What the code computes first in each turn: a condition, then perhaps the element that is appended."""
    if node.macro not in ("map", "filter", "transformList"):
        yield from node.body[:1]
        return
    step = node.step
    if isinstance(step, Call) and step.function == "_?_:_":
        yield step.args[0]
        step = step.args[1]
    if isinstance(step, Call) and step.function == "_+_":
        yield step.args[1]


_LOOPS: dict[str, Callable[[NodeEmitter, Comprehension], str]] = {
    "all": _quantifier,
    "exists": _quantifier,
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    **dict.fromkeys(("map", "filter", "sortBy", "transformList", "transformMap", "transformMapEntry"), _building),
}
