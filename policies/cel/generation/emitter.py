"""Writes Python source: lines, blocks, temporary names, constants, and the cost of straight-line code.

The text of an expression gets into the source only through `constant`, which writes the `repr` of plain values. Names
of variables are generated. docs/reference/cel.md explains why that is safe.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword

from policies.cel.syntax.ast import Node
from policies.cel.values import Value

Path = tuple[str, ...]
"""A chain of selections: the generated name of its root, then the fields."""

Facts = dict[Path, str]
"""Known values of paths: the generated names that hold them."""

_WRITTEN = (str, int, bool, type(None))
# CPython refuses more than 20 nested loops and `try` statements, and more than 100 levels of indentation.
_MOST_LOOPS = 18
_DEEPEST = 90


class UnsupportedError(Exception):
    """A construct that only the exact evaluator supports."""


class TooDeepError(Exception):
    """The source would be nested too deeply for Python."""


class Emitter:
    """Collects the body of one function. charged: the sum of all costs that do not depend on values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Value] = {}
        self.known: dict[Path, str] = {}
        self.charged = 0
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
        for name, known in self.constants.items():
            if known is value:
                return name
        name = f"k{len(self.constants)}"
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
            raise TooDeepError
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


class NodeEmitter(Emitter):
    """An emitter that also writes nodes. Calls and macros need no more of the generator.

    certain: the macros before which the code leaves nothing to be computed, as in `certain_loops`, by id.
    """

    def __init__(self, certain: frozenset[int]) -> None:
        super().__init__()
        self.certain = certain
        self.scopes: list[dict[str, str]] = []  # variables of macros

    def value(self, node: Node) -> str:
        """An expression for a node's value. It may be used only once."""
        raise NotImplementedError

    def truth(self, node: Node) -> str:
        """An expression for a node's value that is certainly true or false."""
        raise NotImplementedError

    def condition(self, node: Node) -> tuple[str, Facts, Facts]:
        """An expression that is true or false, with the facts if it holds and those if it does not."""
        raise NotImplementedError
