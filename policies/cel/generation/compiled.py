"""The generated function of an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from policies.cel.generation.codegen import Generator
from policies.cel.generation.emitter import TooDeepError, UnsupportedError
from policies.cel.generation.support import BETWEEN_LOOKS, NAMESPACE
from policies.cel.syntax.ast import Node
from policies.cel.values import Value
from policies.engine.interruption import Expired

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
        exec(compile(source, "<cel>", "exec"), namespace)  # noqa: S102 - see emitter.py on what gets in
    except (SyntaxError, RecursionError, MemoryError):
        return None
    # The function holds the namespace. Removing it avoids a cycle that would wait for the garbage collector.
    return namespace.pop("evaluate")


def generate(tree: Node) -> Generated | None:
    """The function of a checked tree; None for a construct that only the exact evaluator supports."""
    generator = Generator(tree)
    try:
        result = generator.value(tree)
    except (UnsupportedError, TooDeepError, RecursionError):
        return None
    generator.settle()
    head = ["def evaluate(names, limit, expired):", " cost = 0", f" mark = min(limit, {BETWEEN_LOOKS})"]
    head += [f" {generated} = names[{name!r}]" for name, generated in generator.roots.items()]
    return Generated(
        "\n".join([*head, *generator.lines, f" return {result}, cost"]),
        generator.constants,
        "variables" in generator.roots,
    )
