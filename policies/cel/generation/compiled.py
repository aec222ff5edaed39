"""The generated function of an expression, and when the exact evaluator takes over from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from policies.cel.evaluation.run import Expired
from policies.cel.generation.codegen import Generator
from policies.cel.generation.emitter import TooDeepError, UnsupportedError
from policies.cel.generation.support import NAMESPACE
from policies.cel.syntax.ast import Node
from policies.cel.values import Value

Function = Callable[[Mapping[str, Value], int, Expired | None], tuple[Value, int]]
"""Takes the names, the cost limit and the clock; returns value and cost; raises anything where it cannot tell."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A function in source: the text, and the objects that its names `k0`, `k1`, ... stand for."""

    source: str
    constants: Mapping[str, Value]
    reads_variables: bool = False

    def load(self) -> Function | None:
        """The function; None where Python finds the source too complex."""
        namespace = {**NAMESPACE, **self.constants}
        try:
            exec(compile(self.source, "<cel>", "exec"), namespace)  # noqa: S102 - see emitter.py on what gets in
        except (SyntaxError, RecursionError, MemoryError):
            return None
        # Taken out, since the function holds the namespace: a policy that is replaced must not wait for the collector.
        function: Function = namespace.pop("evaluate")
        return function


def generate(tree: Node) -> Generated | None:
    """The function of a checked tree; None for a construct that is left to the exact evaluator."""
    generator = Generator(tree)
    try:
        result = generator.value(tree)
    except (UnsupportedError, TooDeepError, RecursionError):
        return None
    generator.settle()
    head = ["def evaluate(names, limit, expired):", " cost = 0", " mark = min(limit, 20000)"]
    head += [f" {generated} = names[{name!r}]" for name, generated in generator.roots.items()]
    return Generated(
        "\n".join([*head, *generator.lines, f" return {result}, cost"]),
        generator.constants,
        "variables" in generator.roots,
    )
