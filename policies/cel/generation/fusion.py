"""One generated function for many policies: it finds those that may have something to say about a request.

Like the function of one expression it handles only evaluations in which nothing fails. Each policy stands in a `try`
statement of its own. A policy of which something is false or fails, or whose cost may be over a limit, is added to
`asked`, and judged by itself; so the function need not be exact, it only must never leave out a policy that has
something to say. What several policies read alike is computed once: fields of an object in one policy, variables and
conditions with the same text in all of them. What depends on parameters alone is computed once for each of these, and
kept for the next request, for which they are nearly always the same object.

The costs of all policies are added up, and kept below a tenth of the limit for one expression. That is the lowest of
the limits, so no policy exceeds any of them, and what uses more of one is judged by itself, where that is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf

from policies.cel.activation import QUICK
from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.generation.codegen import Generator, loaded
from policies.cel.generation.inline import LONGEST, Path, UnsupportedError, written_path
from policies.cel.generation.support import BETWEEN_LOOKS
from policies.cel.syntax.ast import Call, Comprehension, Ident, Node, Select, children, variable
from policies.cel.values import ABSENT, Value
from policies.engine.interruption import Expired, TimeLimitError

_ONCE = ("object", "oldObject")
_PARAMS = "params"
_RARE = "namespaceObject"
"""What takes so long to make that it is made where it is read, not at the beginning of the policy."""
_READING = frozenset(
    {"or", "orValue", "hasValue", "value", "optional.of", "optional.none", "of", "none", "dyn", "size"}
)
_LIMIT = EXPRESSION_LIMIT // 10
"""The cost of all policies of a function together."""
_SHARE = LONGEST // 4
"""A policy with more characters is left out: a variable is written at each place where it may be read first."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. text: its own, and those of the variables that it reads; None if that cannot be shared."""

    tree: Node
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The expressions of one policy.

    The policy has nothing to say if a condition is false, or if all validations are true. is_repeated: whether it is
    evaluated for each of some parameters, or only for some requests.
    """

    conditions: Sequence[Expression]
    validations: Sequence[Expression]
    variables: Mapping[str, Expression]
    is_repeated: bool


Fused = Callable[
    [
        Mapping[str, Value], Callable[[int], Iterable[Value]], list[int], Expired | None,
        Callable[[TimeLimitError, int], None],
    ],
    None,
]  # fmt: skip
"""The generated function: it appends the positions of policies that have to be asked one by one.

It takes the variables of expressions; what returns the parameters for which a policy is evaluated; the list to append
to; the time check; and what is told of an expired time, and of the policy under evaluation. Raises TimeLimitError.
"""


def fuse(parts: Sequence[Part | None]) -> Fused | None:
    """The function of some policies, None for those that are always asked; None if it is too complex for Python.

    Python compiles it in one go, with all other threads waiting: about half a millisecond for each policy.
    """
    function: Fused | None = loaded(*written(parts))
    return function


def written(parts: Sequence[Part | None]) -> tuple[str, Mapping[str, Value]]:
    """The source of the function, and the objects that its names stand for."""
    generator = _Fusion(parts)
    source = generator.source(parts)
    return source, {**generator.constants, "Exception_": Exception, "TimeLimitError_": TimeLimitError}


class _Fusion(Generator):
    def __init__(self, parts: Sequence[Part | None]) -> None:
        super().__init__(None)
        self._part: Part
        self._here: set[str] = set()  # names that the current policy reads
        self._own: list[str] = []  # variables that only the current policy has
        # Ids of the current policy's nodes whose values depend on parameters alone, and take longer than a look-up.
        self._lasting: frozenset[int] = frozenset()
        self._left: float = LONGEST  # characters, for all other policies together
        self.room = inf
        texts = Counter(
            text
            for part in parts
            if part is not None
            for text in {expression.text for expression in (*part.conditions, *part.variables.values())}
            if text is not None
        )
        self._common = {text: self.temporary() for text, times in texts.items() if times > 1}
        self._costs = {text: self.temporary() for text in self._common}

    def source(self, parts: Sequence[Part | None]) -> str:
        with self.block("try:"):
            for position, part in enumerate(parts):
                ways: tuple[Callable[[Part], None], ...] = (self._validate, lambda _: self.line("fail()"))
                if part is None or not any(self._is_written(position, part, validate) for validate in ways):
                    self.line(f"asked.append({position})")
        self.line("except TimeLimitError_ as error:")
        self.line(" blame(error, at)")
        self.line(" raise")
        head = ["def evaluate(names, parameters, asked, expired, blame):", " at = cost = 0"]
        head += [f" limit = {_LIMIT}", f" mark = {min(_LIMIT, BETWEEN_LOOKS)}"]
        head += [f" {self.roots[name]} = names[{name!r}]" for name in _ONCE if name in self.roots]
        head += [f" {memory} = ABSENT" for memory in self._common.values()]
        return "\n".join([*head, *self.lines])

    def name(self, name: str) -> str:
        if not any(name in scope for scope in self.scopes):
            if name == "variables":
                raise UnsupportedError
            if name == _RARE:
                return f"names[{name!r}]"
            self._here.add(name)
        return super().name(name)

    def value(self, node: Node) -> str:
        """An expression for a node's value. That of a lasting one is computed if it is not known from before."""
        if id(node) not in self._lasting:
            return super().value(node)
        memory, known, params = self.bound([(ABSENT, None, 0)]), self.temporary(), self.name(_PARAMS)
        lasting, self._lasting = self._lasting, frozenset()  # what is below it is kept with it
        self.line(f"{known} = {memory}[0]")
        with self.block(f"if {known}[0] is not {params}:"):
            before = self.atom("cost + 0")
            result = super().value(node)
            self.settle()
            self.line(f"{known} = {memory}[0] = ({params}, {result}, cost - {before})")
        self.line(f"else: cost += {known}[2]")
        self._lasting = lasting
        return f"{known}[1]"

    def path(self, node: Node) -> Path | None:
        """The path of a node; that of a variable is the name of its value."""
        name = self._variable_of(node)
        return super().path(node) if name is None else (self._variable(name),)

    def attribute(self, node: Node) -> str:
        name = self._variable_of(node)
        if name is not None:
            self.charge(1)
            return self._variable(name)
        field = ".".join(written_path(node) or ())
        if field not in QUICK or any("request" in scope for scope in self.scopes):
            return super().attribute(node)
        self.charge(field.count("."))
        return self.name(field)

    # Policies

    def _is_written(self, position: int, part: Part, validate: Callable[[Part], None]) -> bool:
        """Whether a policy could be written in a way."""
        start, depth = len(self.lines), self.depth
        self.room = min(self._left, _SHARE)
        self._part, self._here, self._own = part, set(), []
        lasting: set[int] = set()
        for expression in (*part.conditions, *part.validations, *part.variables.values()):
            _inputs(expression.tree, lasting)
        self._lasting = frozenset(lasting)
        try:
            self.line(f"at = {position}")
            self.line("start = cost")
            with self.block("try:"):
                repeats = f"for {super().name(_PARAMS)} in parameters({position}):" if part.is_repeated else ""
                with self.block(repeats) if repeats else nullcontext():
                    self._judge_here(part, validate)
                self.settle()
                self.line("if cost > limit: fail()")
            with self.block("except Exception_:"):
                self.line(f"asked.append({position})")
                self.line("cost = start")
        except (UnsupportedError, RecursionError):
            del self.lines[start:]
            self.depth, self._loops, self._cost, self.scopes, self.known = depth, 1, 0, [], {}
        self.room = inf
        self._left -= sum(map(len, self.lines[start:]))
        return len(self.lines) > start

    def _judge_here(self, part: Part, validate: Callable[[Part], None]) -> None:
        """Write the policy, and before it what it reads, and that its variables are not evaluated yet."""
        start, indent = len(self.lines), " " * self.depth
        conditions = []
        for condition in part.conditions:  # one with the same text in several policies is evaluated once
            memory = self._common.get(condition.text or "")
            if memory is None:
                memory = self.atom(self.condition(condition.tree)[0])
            else:
                self._remembered(memory, condition, lambda tree: self.condition(tree)[0])
            conditions.append(memory)
        with self.block(f"if {' and '.join(conditions)}:") if conditions else nullcontext():
            validate(part)
        read = sorted(self._here.difference(_ONCE, (_PARAMS,)))
        lines = [f"{indent}{self.roots[name]} = names[{name!r}]" for name in read]
        self.lines[start:start] = [*lines, *(f"{indent}{variable} = ABSENT" for variable in self._own)]

    def _validate(self, part: Part) -> None:
        for validation in part.validations:
            expression, holds, _ = self.condition(validation.tree)
            self.line(f"if not ({expression}): fail()")
            self.known.update(holds)

    # Variables

    def _variable_of(self, node: Node) -> str | None:
        is_hidden = any("variables" in scope for scope in self.scopes)
        return None if is_hidden or (isinstance(node, Select) and node.test_only) else variable(node)

    def _variable(self, name: str) -> str:
        """The name of the value of a variable, which is evaluated when it is first read."""
        place = "variables", name
        if place in self.known:
            return self.known[place]
        expression = self._part.variables.get(name)
        if expression is None:
            raise UnsupportedError
        memory = self._common.get(expression.text or "")
        if memory is None:
            memory = f"v_{list(self._part.variables).index(name)}"
            self._own += [] if memory in self._own else [memory]
        scopes, self.scopes = self.scopes, []
        self._remembered(memory, expression, self.value)
        self.scopes = scopes
        self.known[place] = memory
        return memory

    def _remembered(self, memory: str, expression: Expression, write: Callable[[Node], str]) -> None:
        """Write the evaluation of what is not known yet. If another policy has evaluated it, only its cost counts."""
        cost = self._costs.get(expression.text or "")
        with self.block(f"if {memory} is ABSENT:"):
            before = "" if cost is None else self.atom("cost + 0")
            result = write(expression.tree)
            if cost is not None:
                self.settle()
                self.line(f"{cost} = cost - {before}")
            self.line(f"{memory} = {result}")
        if cost is not None:
            self.line(f"else: cost += {cost}")


def _inputs(node: Node, lasting: set[int]) -> tuple[frozenset[str], bool]:
    """The variables that a node reads, and whether it takes long. Adds the ids of the lasting nodes from it on down."""
    below = [_inputs(child, lasting) for child in children(node)]
    names = frozenset().union(*(read for read, _ in below))
    if isinstance(node, Ident):
        names = frozenset() if node.constant is not None else frozenset({node.name})
    elif isinstance(node, Comprehension):
        names -= {node.variable, node.variable2, node.accumulator}
    is_library_call = isinstance(node, Call) and "_" not in node.function and node.function not in _READING
    takes_long = any(long for _, long in below) or isinstance(node, Comprehension) or is_library_call
    if takes_long and names == {_PARAMS}:
        lasting.add(id(node))
    return names, takes_long
