"""Turns a checked tree into the source of a Python function over plain decoded JSON.

The function computes the value and the exact cost of an evaluation in which nothing fails. Any unusual case (a missing
key, a value of another type, a very long text) raises an exception, and the exact evaluator of `plan.py` starts again.
Evaluation has no side effects, so nothing is lost. The function may therefore compute in any order; only the conditions
under which it computes something must match the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from policies.cel.cost import LIST_CREATION, MAP_CREATION, STRUCT_CREATION
from policies.cel.evaluation.plan import CONVERSIONS, membership, plan
from policies.cel.evaluation.run import Constant, failed
from policies.cel.generation import inline
from policies.cel.generation.inline import (
    INDEX,
    Emitter,
    Facts,
    Path,
    UnsupportedError,
    certain_loops,
    chooses,
    generate_loop,
    is_constant,
    is_optional,
    is_patch,
    trusted,
)
from policies.cel.generation.support import BETWEEN_LOOKS, NAMESPACE
from policies.cel.kubernetes import VARIABLES
from policies.cel.syntax import ast
from policies.cel.types import BOOL, STRING, Kind
from policies.cel.values import Value
from policies.engine.interruption import Expired

_REFLECTED = {Kind.OPAQUE, Kind.STRUCT, Kind.TYPE, Kind.DYN}


class Generator(Emitter):
    """Writes the body of the function of one expression; of no certain one, without a tree.

    roots: variables of the activation, with their generated names.
    """

    def __init__(self, tree: ast.Node | None) -> None:
        super().__init__(frozenset() if tree is None else certain_loops(tree))
        self.roots: dict[str, str] = {}

    def name(self, name: str) -> str:
        """The generated name of a variable."""
        if name.startswith("."):
            raise UnsupportedError  # one that a macro's variable hides; nobody writes it
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return self.roots.setdefault(name, f"r{len(self.roots)}")

    def value(self, node: ast.Node) -> str:  # noqa: PLR0911, PLR0912 - one return per kind of node
        """An expression for a node's value. It may be used only once."""
        match node:
            case ast.Literal():
                return self.constant(node.value)
            case ast.Ident() | ast.Select() if node.constant is not None:
                return self.constant(node.constant[0])
            case ast.Ident() | ast.Select():
                presence = isinstance(node, ast.Select) and node.test_only
                self.charge(0 if presence or chooses(node) else 1)
                return self.attribute(node)
            case ast.Call():
                return self._call(node)
            case ast.ListLiteral():
                if is_constant(node):
                    return self._constant_of(node)
                self.charge(LIST_CREATION)
                if not node.optional:
                    return f"[{', '.join(self.value(element) for element in node.elements)}]"
                result = self.atom("[]")
                for index, element in enumerate(node.elements):
                    if index in node.optional:
                        content = self.atom(self._content(element))
                        with self.block(f"if {content} is not ABSENT:"):
                            self.line(f"{result}.append({content})")
                    else:
                        self.line(f"{result}.append({self.value(element)})")
                return result
            case ast.MapLiteral() if is_constant(node):
                return self._constant_of(node)
            case ast.MapLiteral():
                self.charge(MAP_CREATION)
                return self._entries([(self.value(e.key), e.value, e.optional) for e in node.entries])
            case ast.StructLiteral():
                self.charge(STRUCT_CREATION)
                entries = [(repr(field.name), field.value, field.optional) for field in node.fields]
                return f"construct({node.type_name!r}, {self._entries(entries)})"
            case ast.Comprehension():
                return generate_loop(self, node)
            case _:
                raise UnsupportedError

    def truth(self, node: ast.Node) -> str:
        """An expression for a node's value that is certainly true or false."""
        expression = self.value(node)
        if node.type == BOOL and trusted(node):
            return expression
        name = self.atom(expression)
        self.line(f"if {name} is not True and {name} is not False: fail()")
        return name

    # Attributes

    def attribute(self, node: ast.Node) -> str:  # noqa: PLR0911, PLR0912 - one return per kind of node
        """A chain of selections without the cost of the whole. Branches of `?:` and computed indices do not pay it."""
        match node:
            case ast.Ident() if node.constant is None:
                return self.name(node.name)
            case ast.Select() if node.name is not None:
                return self.name(node.name)
            case ast.Select() if node.constant is None and node.test_only:
                return self.presence(node)[0]
            case ast.Select() if node.constant is None and is_optional(node.operand):
                return f"wrap({self._behind_optional(node.operand, node.field)})"
            case ast.Select() if node.constant is None:
                self.charge(1)
                path, operand = self.path(node), node.operand
                if path is None or path not in self.known:
                    return f"{self._operand(operand)}[{node.field!r}]"
                while isinstance(operand, ast.Select) and operand.name is None:
                    self.charge(1)
                    operand = operand.operand
                return self.known[path]
            case ast.Call(function="_[_]") if not is_optional(node.arguments[0]):
                self.charge(1)
                target, key = node.arguments
                above, index = self._operand(target), self._key(key)
                if key.type == STRING and trusted(key):
                    return f"{above}[{index}]"
                above = self.atom(above)
                if isinstance(key, ast.Literal) and key.value.__class__ is int and key.value >= 0:
                    return f"({above}[{index}] if {above}.__class__ is list else qualify({above}, {index}))"
                return f"item({above}, {index})"
            case ast.Call(function="_[_]" | "_?._" | "_[?_]"):
                return f"wrap({self.optional_attribute(node)})"
            case ast.Call(function="_?_:_"):
                return self.choice(node)
            case _:
                return self.value(node)

    def _operand(self, node: ast.Node) -> str:
        if is_optional(node) or is_patch(node):
            raise UnsupportedError  # selections from an optional are optional themselves
        return self._constant_of(node) if is_constant(node) else self.attribute(node)

    def path(self, node: ast.Node) -> Path | None:
        """The path of a node that is a chain of selections, with the generated name of its root; None for others."""
        fields: list[str] = []
        while isinstance(node, ast.Select) and node.name is None and node.constant is None and not node.test_only:
            fields.append(node.field)
            node = node.operand
        if not isinstance(node, ast.Ident | ast.Select) or node.constant is not None or node.name is None:
            return None
        return (self.name(node.name), *reversed(fields))

    def presence(self, node: ast.Select) -> tuple[str, Facts]:
        """An expression for `has(a.b)`, and the facts if it holds: the value of `a.b`."""
        if chooses(node):
            raise UnsupportedError  # `has((a ? b : c).d)` costs something else in each release
        self.charge(1)
        operand = self.atom(self._operand(node.operand))
        path = self.path(node.operand)
        if path is None or node.operand.type == VARIABLES:
            name = repr(node.field)
            return f"({name} in {operand} if {operand}.__class__ is dict else has({operand}, {name}))", {}
        content = self.temporary()
        self.line(f"{content} = {operand}.get({node.field!r}, ABSENT)")
        return f"{content} is not ABSENT", {(*path, node.field): content}

    def _key(self, node: ast.Node) -> str:
        if isinstance(node, ast.Ident | ast.Select) or (
            isinstance(node, ast.Call) and node.function in (*INDEX, "_?_:_")
        ):
            return self.attribute(node)
        return self.value(node)

    # Optionals

    def optional(self, node: ast.Node) -> str:
        """A name for the content of an optional, or ABSENT. This avoids making an Optional."""
        if isinstance(node, ast.Select) and is_optional(node.operand) and not node.test_only:
            self.charge(0 if chooses(node) else 1)
            return self._behind_optional(node.operand, node.field)
        if (
            isinstance(node, ast.Call)
            and node.function in INDEX
            and (node.function != "_[_]" or is_optional(node.arguments[0]))
        ):
            self.charge(0 if chooses(node) else 1)
            return self.optional_attribute(node)
        if isinstance(node, ast.Call) and node.function == "optional.none":
            self.charge(1)
            return "ABSENT"
        if isinstance(node, ast.Call) and node.function == "optional.of":
            self.charge(1)
            return self.bound(node.args[0].value) if isinstance(node.args[0], ast.Literal) else self.value(node.args[0])
        return self.atom(f"unwrap({self.value(node)})")

    def optional_attribute(self, node: ast.Call) -> str:
        """`a.?b` or `a[?b]` without the cost of the whole."""
        target, key = node.arguments
        return self._behind_optional(target, key.value if isinstance(key, ast.Literal) else key)

    def _behind_optional(self, target: ast.Node, key: Value | ast.Node) -> str:
        result = self.temporary()
        if is_optional(target):
            above = self._optional_above(target)
            self.line(f"{result} = {above}")
            with self.block(f"if {result} is not ABSENT:"):
                self._get(result, result, key)
        elif target.type == VARIABLES:
            raise UnsupportedError
        else:
            self._get(result, self._operand(target), key)
        return result

    def _optional_above(self, target: ast.Node) -> str:
        if isinstance(target, ast.Call) and target.function in INDEX:
            return self.optional_attribute(target)
        if isinstance(target, ast.Select) and not target.test_only and is_optional(target.operand):
            return self._behind_optional(target.operand, target.field)
        raise UnsupportedError

    def _get(self, result: str, operand: str, key: Value | ast.Node) -> None:
        if key.__class__ is str:
            self.line(f"{result} = {operand}.get({key!r}, ABSENT)")
        else:
            written = self._key(key) if isinstance(key, ast.Node) else self.constant(key)
            self.line(f"{result} = maybe({operand}, {written})")
        with self.block(f"if {result} is not ABSENT:"):
            self.charge(1)

    # Calls

    def _call(self, node: ast.Call) -> str:  # noqa: PLR0911 - one return per kind of call
        match node.function:
            case "_&&_" | "_||_":
                return self._logic(node)[0]
            case "_?_:_":
                return self.choice(node)
            case "_[_]" | "_[?_]" | "_?._":
                self.charge(0 if chooses(node) else 1)
                return self.attribute(node)
            case "@not_strictly_false":
                raise UnsupportedError  # it occurs only in macros, which handle it themselves
            case "or" | "orValue":
                left, right = node.arguments
                unwraps = node.function == "orValue"
                if not is_optional(left) or not (unwraps or is_optional(right)):
                    raise UnsupportedError
                name = self.temporary()
                self.line(f"{name} = {self.optional(left)}")
                with self.block(f"if {name} is ABSENT:"):
                    self.line(f"{name} = {self.value(right) if unwraps else self.optional(right)}")
                return name if unwraps else f"wrap({name})"
            case "hasValue":
                self.charge(1)
                return f"({self.atom(self.optional(node.arguments[0]))} is not ABSENT)"
            case "value":
                self.charge(1)
                name = self.atom(self.optional(node.arguments[0]))
                self.line(f"if {name} is ABSENT: fail()")
                return name
            case _:
                folded = self._folded(node)
                return folded if folded is not None else inline.generate(self, node)

    def _folded(self, node: ast.Call) -> str | None:
        """A constant or look-up for a conversion of literals or a search in literals, as in `plan.py`."""
        given = node.arguments
        if node.function == "@in" and isinstance(node.args[1], ast.ListLiteral):
            container = node.args[1]
            if not container.elements:
                return self.constant(False)  # noqa: FBT003
            values = [element.value for element in container.elements if isinstance(element, ast.Literal)]
            if len(values) == len(container.elements) and all(value.__class__ is str for value in values):
                return f"({self.value(node.args[0])} in {self.bound(frozenset(values))})"
            step = plan(container) if is_constant(container) else None
            contains = membership(step.value) if isinstance(step, Constant) else None
            return None if contains is None else f"{self.bound(contains)}({self.value(node.args[0])})"
        if len(given) == 1 and isinstance(
            given[0], ast.Literal | ast.Ident | ast.Call | ast.ListLiteral | ast.MapLiteral
        ):
            folded = plan(node) if node.function in CONVERSIONS and is_constant(given[0]) else None
            if isinstance(folded, Constant):
                return self.constant(folded.value)
        return None

    def condition(self, node: ast.Node) -> tuple[str, Facts, Facts]:
        """An expression that is true or false, with the facts if it holds and those if it does not."""
        if isinstance(node, ast.Select) and node.test_only:
            expression, facts = self.presence(node)
            return expression, facts, {}
        if isinstance(node, ast.Call) and node.function == "!_":
            self.charge(1)
            expression, holds, holds_not = self.condition(node.args[0])
            return f"not ({expression})", holds_not, holds
        if isinstance(node, ast.Call) and node.function in ("_&&_", "_||_"):
            return self._logic(node)
        return self.truth(node), {}, {}

    def _logic(self, node: ast.Call) -> tuple[str, Facts, Facts]:
        """If `a && b` holds, both sides do. If `a || b` does not hold, neither side does."""
        conjunction = node.function == "_&&_"
        result = self.temporary()
        left, holds, holds_not = self.condition(node.args[0])
        facts = holds if conjunction else holds_not
        self.line(f"{result} = {not conjunction}")
        with self.block(f"if {left}:" if conjunction else f"if not ({left}):", facts):
            right, holds, holds_not = self.condition(node.args[1])
            self.line(f"{result} = {right}")
        facts = facts | (holds if conjunction else holds_not)
        return (result, facts, {}) if conjunction else (result, {}, facts)

    def choice(self, node: ast.Call) -> str:
        """`a ? b : c`. Branches that are attributes do not cost 1 as usual."""
        if is_optional(node) and (node.type is None or node.type.parameters[0].kind in _REFLECTED):
            raise UnsupportedError  # the reference unwraps such contents
        result = self.temporary()
        condition, holds, holds_not = self.condition(node.args[0])
        with self.block(f"if {condition}:", holds):
            self.line(f"{result} = {self._key(node.args[1])}")
        with self.block("else:", holds_not):
            self.line(f"{result} = {self._key(node.args[2])}")
        return result

    # Literals

    def _content(self, node: ast.Node) -> str:
        return self.optional(node) if is_optional(node) else f"unwrap({self.value(node)})"

    def _entries(self, entries: list[tuple[str, ast.Node, bool]]) -> str:
        if not any(optional for _, _, optional in entries):
            return "{" + ", ".join(f"{key}: {self.value(value)}" for key, value, _ in entries) + "}"
        result = self.atom("{}")
        for key, value, optional in entries:
            if not optional:
                self.line(f"{result}[{key}] = {self.value(value)}")
                continue
            name, content = self.temporary(), self.atom(self._content(value))
            self.line(f"{name} = {key}")
            with self.block(f"if {content} is ABSENT:"):
                self.line(f"{result}.pop({name}, None)")
            with self.block("else:"):
                self.line(f"{result}[{name}] = {content}")
        return result

    def _constant_of(self, node: ast.Node) -> str:
        step = plan(node)
        if not isinstance(step, Constant) or failed(step.value):
            raise UnsupportedError
        return self.bound(step.value)


Function = Callable[[Mapping[str, Value], int, Expired | None], tuple[Value, int]]
"""Takes the names, the cost limit and the time check; returns value and cost. Raises any exception if it gives up."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The source of a function, and the objects that its names `k0`, `k1`, ... stand for."""

    source: str
    constants: Mapping[str, Value]
    reads_variables: bool = False

    def load(self) -> Function | None:
        """The function; None if the source is too complex for Python."""
        function: Function | None = loaded(self.source, self.constants)
        return function


def loaded(source: str, constants: Mapping[str, Value]) -> Any:
    """The function `evaluate` of generated source; None if the source is too complex for Python."""
    namespace = {**NAMESPACE, **constants}
    try:
        exec(compile(source, "<cel>", "exec"), namespace)  # noqa: S102 - see inline.py on what gets in
    except (SyntaxError, RecursionError, MemoryError):
        return None
    # The function holds the namespace. Removing it avoids a cycle that would wait for the garbage collector.
    return namespace.pop("evaluate")


def generate(tree: ast.Node) -> Generated | None:
    """The function of a checked tree; None for a construct that only the exact evaluator supports."""
    generator = Generator(tree)
    try:
        result = generator.value(tree)
        generator.settle()
        generator.line(f"return {result}, cost")
    except (UnsupportedError, RecursionError):
        return None
    head = ["def evaluate(names, limit, expired):", " cost = 0", f" mark = min(limit, {BETWEEN_LOOKS})"]
    head += [f" {generated} = names[{name!r}]" for name, generated in generator.roots.items()]
    return Generated("\n".join([*head, *generator.lines]), generator.constants, "variables" in generator.roots)
