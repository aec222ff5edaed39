"""Calls and macros in generated code.

Operators and frequent methods are written inline, others call their implementation. A macro is a `for` statement that
charges the same as the reference's fold. Inline code checks the classes of the values, because Python's operators
accept more than CEL's (`True == 1`, `'a' in 'abc'`). If the check fails, the full implementation or the exact evaluator
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from keyword import iskeyword
from math import ceil

from policies.cel.cost import REGEX_LENGTH, STRING_TRAVERSAL, of_first, traversal
from policies.cel.evaluation.plan import CONVERSIONS
from policies.cel.evaluation.run import bind, literal_pattern, text_only
from policies.cel.generation.support import PASS
from policies.cel.library.regex import compile_pattern
from policies.cel.patchtypes import is_patch_type
from policies.cel.syntax.ast import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select, children
from policies.cel.syntax.macros import ACCUMULATOR
from policies.cel.types import STRING, Kind
from policies.cel.values import BudgetError, CelError, Value

INDEX = ("_[_]", "_[?_]", "_?._")
"""The functions that read from their first argument."""
_PASSED_ON = frozenset({*INDEX, "or", "orValue", "value", "dyn"})
_BUILDING = frozenset({"map", "filter", "transformList", "transformMap", "transformMapEntry"})
_SCALAR = {Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.NULL, Kind.DURATION, Kind.TIMESTAMP, Kind.TYPE}
_SHORT = 10  # characters that one unit of cost passes over


class UnsupportedError(Exception):
    """What only the exact evaluator supports: a construct, or source that is too deep or too long for Python."""


# What may be known of a tree beforehand


def is_optional(node: Node) -> bool:
    """Whether the value of a node is certainly an optional."""
    if isinstance(node, Call) and node.function in ("_?._", "_[?_]"):
        return True  # regardless of the type that the checker found
    return node.type is not None and node.type.kind is Kind.OPAQUE and node.type.name == "optional_type"


def is_patch(node: Node) -> bool:
    """Whether a node is a part of `Object{}` or a JSONPatch."""
    return node.type is not None and node.type.kind is Kind.STRUCT and is_patch_type(node.type.name)


def is_constant(node: Node) -> bool:  # noqa: PLR0911 - one return per kind of node
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
        case Call(function="@in"):
            return isinstance(node.args[1], ListLiteral) and not node.args[1].elements
        case Call():
            given = node.arguments
            return node.function in CONVERSIONS and len(given) == 1 and is_constant(given[0])
        case _:
            return False


def written_path(node: Node) -> tuple[str, ...] | None:
    """A chain as written. The same text may mean different variables; `request` alone is always the same."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        fields.append(node.field)
        node = node.operand
    return (node.name, *reversed(fields)) if isinstance(node, Ident) else None


def chooses(node: Node) -> bool:
    """Whether a chain begins with `a ? b : c`. Reading such a chain costs nothing."""
    while True:
        match node:
            case Select() if node.name is None and node.constant is None:
                node = node.operand
            case Call() if node.function in INDEX:
                node = node.arguments[0]
            case Call():
                return node.function == "_?_:_"
            case _:
                return False


def trusted(node: Node) -> bool:  # noqa: PLR0911 - one return per kind of node
    """Whether the value of a node certainly has the class of its type. This does not cover the elements of a list."""
    match node:
        case Literal() | ListLiteral() | MapLiteral():
            return True
        case Select(test_only=True):
            return True
        case Select():
            path = written_path(node)
            return path is not None and path[0] == "request"
        case Call(function="_?_:_"):
            return trusted(node.args[1]) and trusted(node.args[2])
        case Call():
            results = {overload.result.kind for overload in node.overloads}
            return node.function not in _PASSED_ON and results.isdisjoint((Kind.DYN, Kind.PARAMETER))
        case Comprehension():
            return node.macro in _BUILDING or node.macro.startswith(("all", "exists"))
        case _:
            return False


# Lines, blocks, names and constants


Path = tuple[str, ...]
"""A chain of selections: the generated name of its root, then the fields."""
Facts = dict[Path, str]
"""Known values of paths: the generated names that hold them."""
_WRITTEN = (str, int, bool, type(None))
# CPython refuses more than 20 nested loops and `try` statements, and more than 100 levels of indentation.
_MOST_LOOPS = 18
_DEEPEST = 90
LONGEST = 100_000
"""The most characters of a function. Python compiles so many in 20 to 50 ms, while everything else waits."""


class Emitter:
    """Collects the body of one function. Calls and macros need no more of the generator.

    certain: ids of the macros before which the code leaves nothing to be computed. scopes: the generated names of the
    variables of macros. room: for how many more characters there is room. charged: the sum of all costs that do not
    depend on values.
    """

    def __init__(self, certain: frozenset[int]) -> None:
        self.certain = certain
        self.scopes: list[dict[str, str]] = []
        self.lines: list[str] = []
        self.constants: dict[str, Value] = {}
        self.known: Facts = {}
        self.room: float = LONGEST
        self.charged = 0
        self._names: dict[int, str] = {}  # of constants, by id
        self.depth = 1
        self._loops = 0
        self._temporaries = 0
        self._cost = 0

    def temporary(self) -> str:
        """A new name."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    def line(self, text: str) -> None:
        """Write one statement."""
        self.room -= len(text)
        if self.room < 0:
            raise UnsupportedError
        self.lines.append(f"{' ' * self.depth}{text}")

    def atom(self, expression: str) -> str:
        """A name for an expression, so that its value can be used more than once."""
        if expression.isidentifier() and not iskeyword(expression):
            return expression
        name = self.temporary()
        self.line(f"{name} = {expression}")
        return name

    def constant(self, value: Value) -> str:
        """A literal for a plain value, a generated name for any other."""
        if value.__class__ in _WRITTEN:
            return repr(value)
        return self.bound(value)

    def bound(self, value: Value) -> str:
        """A generated name for an object: a function, a compiled pattern, a Duration."""
        name = self._names.setdefault(id(value), f"k{len(self.constants)}")
        self.constants[name] = value
        return name

    def charge(self, cost: int) -> None:
        """Add a cost that is the same whenever this place is reached. Costs are summed until the code branches."""
        self._cost += cost
        self.charged += max(cost, 0)

    def settle(self) -> None:
        """Write a statement for the costs charged so far."""
        if self._cost:
            self.line(f"cost += {self._cost}" if self._cost > 0 else f"cost -= {-self._cost}")
            self._cost = 0

    @contextmanager
    def block(self, header: str, facts: Facts | None = None) -> Iterator[None]:
        """The statements under a header. `facts`, and facts found inside, hold only there."""
        self.settle()
        self.line(header)
        loops = self._loops
        self._loops += not header.startswith(("if", "else"))
        if self.depth >= _DEEPEST or self._loops > _MOST_LOOPS:
            raise UnsupportedError
        known, self.known = self.known, {**self.known, **(facts or {})}
        self.depth += 1
        size = len(self.lines)
        yield
        self.settle()
        if len(self.lines) == size:
            self.line("pass")
        self.depth -= 1
        self._loops = loops
        self.known = known

    def value(self, node: Node) -> str:
        """An expression for a node's value. It may be used only once."""
        raise NotImplementedError

    def truth(self, node: Node) -> str:
        """An expression for a node's value that is certainly true or false."""
        raise NotImplementedError

    def condition(self, node: Node) -> tuple[str, Facts, Facts]:
        """An expression that is true or false, with the facts if it holds and those if it does not."""
        raise NotImplementedError


# Calls


def generate(generator: Emitter, node: Call) -> str:
    """An expression for the value of a call. Charges the cost or writes code for it."""
    inlined = _INLINED.get(node.function)
    written = None if inlined is None else inlined(generator, node)
    if written is not None:
        return written
    binding = bind(node)
    values = [argument.value for argument in node.arguments if isinstance(argument, Literal)]
    if values and len(values) == len(node.arguments):  # such as `quantity('64Gi')`, which need not run each time
        try:
            value = binding.call(*values)
        except (CelError, BudgetError):
            value = []
        if value.__class__ not in (list, dict):  # which could be changed if they were shared
            generator.charge(binding.cost if isinstance(binding.cost, int) else binding.cost(values, value))
            return generator.bound(value)
    call = binding.call
    if literal_pattern(node) is not None:
        call = text_only(binding.exact or call)
    elif (
        binding.exact is not None
        and len(node.overloads) == 1
        and all(
            argument.type == parameter and not parameter.parameters and trusted(argument)
            for argument, parameter in zip(node.arguments, node.overloads[0].parameters, strict=True)
        )
    ):
        call = binding.exact
    function = generator.bound(call)
    given = [generator.value(argument) for argument in node.arguments]
    if isinstance(binding.cost, int):
        generator.charge(binding.cost)
        return f"{function}({', '.join(given)})"
    names = [generator.atom(expression) for expression in given]
    result = generator.temporary()
    generator.line(f"{result} = {function}({', '.join(names)})")
    if binding.cost is of_first:
        _charge_pass(generator, f"len({names[0]})")
    else:  # it depends on sizes
        generator.line(f"cost += {generator.bound(binding.cost)}(({', '.join(names)},), {result})")
    return result


def _charge_pass(generator: Emitter, size: str, factor: int = 1) -> None:
    generator.line(f"cost += PASS[{size}]" + (f" * {factor}" if factor != 1 else ""))


def _is_text(node: Node) -> bool:
    return node.type == STRING and trusted(node)


def _is_scalar(node: Node) -> bool:
    return node.type is not None and node.type.kind in _SCALAR and trusted(node)


# Equality


def _equality(generator: Emitter, node: Call) -> str | None:
    left, right = node.args
    if isinstance(left, Literal) and not isinstance(right, Literal):
        left, right = right, left
    negated = node.function == "_!=_"
    expression = _with_literal(generator, left, right) if isinstance(right, Literal) else None
    if expression is None:
        names = [generator.atom(generator.value(argument)) for argument in node.args]
        cost = bind(node).cost  # that of one pass over the smaller of two values
        if all(map(_is_scalar, node.args)):
            generator.charge(1)
        elif isinstance(cost, int):
            generator.charge(cost)
        elif all(map(_is_text, node.args)):
            _charge_pass(generator, f"min(len({names[0]}), len({names[1]}))")
        else:
            generator.line(f"cost += {generator.bound(cost)}(({names[0]}, {names[1]}), None)")
        if _is_text(node.args[0]) or _is_text(node.args[1]):
            return f"({names[0]} {'!=' if negated else '=='} {names[1]})"
        return f"{'different' if negated else 'equal'}({', '.join(names)})"
    return f"not {expression}" if negated else expression


def _with_literal(generator: Emitter, node: Node, literal: Literal) -> str | None:
    """An expression for `x == literal`. The class of the literal decides which values can be equal."""
    value = literal.value
    if value.__class__ not in (str, int, bool, type(None)):
        return None
    name = generator.atom(generator.value(node))
    # The cost is that of one pass over the shorter text, or 1.
    length = len(value) if value.__class__ is str else 1
    if _is_scalar(node) and value.__class__ is not str:
        generator.charge(1)
    elif length >= len(PASS):
        generator.line(f"cost += traversal({name}) if size({name}) < {length} else {ceil(length * STRING_TRAVERSAL)}")
    elif length > _SHORT:
        _charge_pass(generator, f"min({'len' if _is_text(node) else 'size'}({name}), {length})")
    elif length > 0:
        unless_empty = name if value.__class__ is str and _is_text(node) else f"{name} or {name}.__class__ not in SIZED"
        generator.line(f"if {unless_empty}: cost += 1")
    if value.__class__ is str:
        return f"({name} == {value!r})"
    if value is None or (value.__class__ is bool and _is_scalar(node)):
        return f"({name} is {value!r})"
    if value.__class__ is bool:  # a value that is neither true nor false may be incomparable
        return f"({name} is {value!r} or {name} is not {not value!r} and equal({name}, {value!r}))"
    return f"({name} == {value!r} if {name}.__class__ is int_ else equal({name}, {value!r}))"


# Logic, sizes, membership, texts


def _opposite(generator: Emitter, node: Call) -> str:
    generator.charge(1)
    return f"(not {generator.truth(node.args[0])})"


def _size(generator: Emitter, node: Call) -> str:
    generator.charge(1)
    (argument,) = node.arguments
    expression = generator.value(argument)
    if argument.type is not None and argument.type.kind in (Kind.STRING, Kind.LIST, Kind.MAP, Kind.BYTES):
        return f"len({expression})"
    return f"length({expression})"


def _membership(generator: Emitter, node: Call) -> str | None:
    item, container = node.args
    if not _is_text(item) or container.type is None:
        return None
    names = [generator.atom(generator.value(argument)) for argument in node.args]
    if container.type.kind is Kind.LIST:
        generator.line(f"cost += len({names[1]})")
    else:
        generator.charge(1)
    if container.type.kind in (Kind.LIST, Kind.MAP) and trusted(container):
        return f"({names[0]} in {names[1]})"
    guard = f"{names[1]}.__class__ is dict or {names[1]}.__class__ is list"
    return f"({names[0]} in {names[1]} if {guard} else is_in({names[0]}, {names[1]}))"


def _text_search(generator: Emitter, node: Call) -> str | None:
    """`startsWith`, `endsWith` and `contains` of a literal."""
    text, part = node.arguments
    if not isinstance(part, Literal) or part.value.__class__ is not str or len(part.value) >= len(PASS):
        return None
    name = generator.atom(generator.value(text))
    if node.function == "contains":
        _charge_pass(generator, f"len({name})", PASS[len(part.value)])
        return f"({name}.find({part.value!r}) >= 0)"
    if bind(node).cost is of_first:
        _charge_pass(generator, f"len({name})")
    else:
        generator.charge(traversal(part.value))
    return f"({name}.{node.function.lower()}({part.value!r}))"


def _matches(generator: Emitter, node: Call) -> str | None:
    text, _ = node.arguments
    pattern = literal_pattern(node)
    if pattern is None:
        return None
    name = generator.atom(generator.value(text))
    if not _is_text(text):
        generator.line(f"if {name}.__class__ is not str_: fail()")
    search = f"{generator.bound(compile_pattern(pattern).matches)}({name})"
    price = bind(node).cost
    if isinstance(price, int):
        generator.charge(price)
    else:
        _charge_pass(generator, f"len({name}) + 1", ceil(len(pattern) * REGEX_LENGTH))
    return search


_INLINED: dict[str, Callable[[Emitter, Call], str | None]] = {
    "_==_": _equality,
    "_!=_": _equality,
    "!_": _opposite,
    "size": _size,
    "@in": _membership,
    **dict.fromkeys(("startsWith", "endsWith", "contains"), _text_search),
    "matches": _matches,
}


_ALL, _EXISTS = 3, 4
_LOOK_AGAIN = {"all": 2, "exists": 3}


def generate_loop(generator: Emitter, node: Comprehension) -> str:
    """An expression for the value of a macro."""
    binds = node.accumulator != ACCUMULATOR
    return _binding(generator, node) if binds else _LOOPS[node.macro](generator, node)


@contextmanager
def _loop(generator: Emitter, node: Comprehension) -> Iterator[str]:
    """The `for` statement; yields the name of the iterator."""
    over, kind = generator.value(node.range), _kind(node.range)
    if node.variable2 is not None:
        over = f"pairs({over})"
    elif kind not in (Kind.LIST, Kind.MAP) or not trusted(node.range):
        over = f"elements({over})"
    iterator = generator.atom(f"iter({over})")
    first, second = generator.temporary(), generator.temporary()
    target = first if node.variable2 is None else f"{first}, {second}"
    names = {node.variable: first} if node.variable2 is None else {node.variable: first, node.variable2: second}
    with generator.block(f"for {target} in {iterator}:"):
        generator.scopes.append(names)
        start = len(generator.lines)
        yield iterator
        generator.settle()
        charge = f"{' ' * generator.depth}cost += "
        if not any(line.startswith(charge) and line[len(charge) :].isdigit() for line in generator.lines[start:]):
            # it would never look at the clock; the exact evaluator counts turns
            raise UnsupportedError
        looks = "guard(cost, limit, expired)"
        if id(node) in generator.certain:
            looks = f"certain_guard(cost, limit, expired, {generator.charged})"
        generator.line(f"if cost > mark: mark = {looks}")
        generator.scopes.pop()


def _quantifier(generator: Emitter, node: Comprehension) -> str:
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


def _exactly_one(generator: Emitter, node: Comprehension) -> str:
    count = generator.atom("0 + 0")
    with _loop(generator, node):
        condition, *_ = generator.condition(node.body[0])
        with generator.block(f"if {condition}:"):
            generator.charge(2)
            generator.line(f"{count} += 1")
    generator.charge(2)
    return f"({count} == 1)"


def _building(generator: Emitter, node: Comprehension) -> str:
    """`map`, `filter` and similar macros. The tree shows what the step appends and what it costs."""
    result = generator.atom("[]" if _kind(node.init) is Kind.LIST else "{}")
    with _loop(generator, node):
        step = node.step
        if isinstance(step, Call) and step.function == "_?_:_":
            condition, facts, _ = generator.condition(step.args[0])
            with generator.block(f"if {condition}:", facts):
                _append(generator, step.args[1], result)
        else:
            _append(generator, step, result)
    generator.charge(1)
    return result


def _kind(node: Node) -> Kind:
    return node.type.kind if node.type is not None else Kind.DYN


def _append(generator: Emitter, step: Node, result: str) -> None:
    """`@result + [x]` or `cel.@mapInsert(@result, ...)`: costs 1 to read the result and 1 for the call."""
    assert isinstance(step, Call)  # noqa: S101 - macros are made so
    generator.charge(2)
    if step.function == "_+_":
        generator.line(f"{result} += {generator.value(step.args[1])}")
        return
    given = [generator.value(argument) for argument in step.args[1:]]
    function = "insert" if len(given) == 2 else "insert_all"  # key and value, or a map
    generator.line(f"{function}({result}, {', '.join(given)})")


def _binding(generator: Emitter, node: Comprehension) -> str:
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
        below = [node.range]
    elif isinstance(node, Call) and node.function in ("_&&_", "_||_", "_?_:_", "or", "orValue"):
        below = below[:1]
    return any(_surely_used(child, name) for child in below)


_WHOLE = frozenset({"_&&_", "_||_", "!_", "_?_:_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
"""Calls whose code computes each argument before that of the next one begins."""


def certain_loops(node: Node) -> frozenset[int]:
    """The ids of the macros before which the code computes everything that the reference computes before them.

    Elsewhere an operand may be left to the end of an expression: in `f(a.b, l.all(...))` the loop runs first. Should
    `a.b` fail, the reference never runs the loop. So only in these macros is the cost limit certainly exceeded as soon
    as the sum of the costs is above it, except for what the code charges early.
    """
    own: frozenset[int] = frozenset()
    below: Iterable[Node] = ()
    match node:
        case Comprehension() if node.macro in _LOOPS and node.macro != "sortBy" and node.accumulator == ACCUMULATOR:
            own, below = frozenset({id(node)}), [node.range]
            # What the code computes first in each turn: a condition, then perhaps the element that is appended.
            step: Node | None = node.step
            if node.macro not in ("map", "filter", "transformList"):
                below, step = [*below, *node.body[:1]], None
            if isinstance(step, Call) and step.function == "_?_:_":
                below, step = [*below, step.args[0]], step.args[1]
            if isinstance(step, Call) and step.function == "_+_":
                below = [*below, step.args[1]]
        case Call() if node.function in _WHOLE:
            below = node.args
        case Call():
            below = node.arguments[:1]
        case Select():
            below = (node.operand,)
        case ListLiteral():
            below = node.elements[:1]
        case _:
            pass
    return own.union(*map(certain_loops, below))


_LOOPS: dict[str, Callable[[Emitter, Comprehension], str]] = {
    "all": _quantifier,
    "exists": _quantifier,
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    **dict.fromkeys(("map", "filter", "sortBy", "transformList", "transformMap", "transformMapEntry"), _building),
}
