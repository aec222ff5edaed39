"""Python source for generated code: lines, blocks, names, constants; and what may be known of a tree beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword

from policies.cel.evaluation.plan import CONVERSIONS
from policies.cel.kubernetes import VARIABLES
from policies.cel.patchtypes import is_patch_type
from policies.cel.syntax.ast import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from policies.cel.types import Kind
from policies.cel.values import Value

INDEX = ("_[_]", "_[?_]", "_?._")
"""The functions that read from their first argument."""


def is_optional(node: Node) -> bool:
    """Whether the value of a node is certainly an optional."""
    if isinstance(node, Call) and node.function in ("_?._", "_[?_]"):
        return True  # regardless of the type that the checker found
    return node.type is not None and node.type.kind is Kind.OPAQUE and node.type.name == "optional_type"


def is_variables(node: Node) -> bool:
    """Whether a node is `variables`, whose fields are computed when they are read."""
    return node.type == VARIABLES


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


def written_path(node: Node) -> Path | None:
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


class UnsupportedError(Exception):
    """What only the exact evaluator supports: a construct, or source that is too deep or too long for Python."""


class Emitter:
    """Collects the body of one function. Calls and macros need no more of the generator.

    certain: ids of the macros before which the code leaves nothing to be computed, as in `certain_loops`. scopes: the
    generated names of the variables of macros. room: for how many more characters there is room. charged: the sum of
    all costs that do not depend on values.
    """

    def __init__(self, certain: frozenset[int]) -> None:
        self.certain = certain
        self.scopes: list[dict[str, str]] = []
        self.lines: list[str] = []
        self.constants: dict[str, Value] = {}
        self.known: dict[Path, str] = {}
        self.room: float = LONGEST
        self.charged = 0
        self._names: dict[int, str] = {}  # of constants, by id
        self._depth = 1
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
        self.lines.append(f"{' ' * self._depth}{text}")

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

    def surely_costs(self, start: int) -> bool:
        """Whether the lines of this block from a number on charge something in any case."""
        written = f"{' ' * self._depth}cost += "
        return any(line.startswith(written) and line[len(written) :].isdigit() for line in self.lines[start:])

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
        if self._depth >= _DEEPEST or self._loops > _MOST_LOOPS:
            raise UnsupportedError
        known, self.known = self.known, {**self.known, **(facts or {})}
        self._depth += 1
        size = len(self.lines)
        yield
        self.settle()
        if len(self.lines) == size:
            self.line("pass")
        self._depth -= 1
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
