"""Counts of the product's source: what `make figures` prints, and what tests/test_figures.py holds."""

from __future__ import annotations

import ast
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("certs", "cks_admission", "policies", "webhook")
BLOCK = 6
"""So many lines that stand in two places are a repeated block."""


@dataclass(frozen=True)
class Module:
    """A module of the product: its file below the repository and its text."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Its dotted name."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def functions(self) -> Iterator[tuple[str, int]]:
        """Each function with its length in lines."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{self.path}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1

    @property
    def code(self) -> Iterator[tuple[int, str]]:
        """The lines that can repeat each other: no tables, imports, parameters, docstrings, comments, brackets."""
        left_out = {number for node in self._no_code() for number in range(node.lineno, (node.end_lineno or 0) + 1)}
        for number, line in enumerate(self.lines, 1):
            text = line.strip()
            if number not in left_out and not text.startswith("#") and any(map(str.isalnum, text)):
                yield number, text

    def _no_code(self) -> Iterator[ast.stmt | ast.arg]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom | ast.arg):
                yield node
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield node
        yield from (node for node in self.tree.body if isinstance(node, ast.Assign | ast.AnnAssign))


def product() -> dict[str, Module]:
    """The modules of the product by name."""
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    modules = (Module(path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in files)
    return {module.name: module for module in modules}


def imports(module: Module, known: dict[str, Module], *, lazy: bool) -> set[str]:
    """The modules of the product that a module imports when it is loaded or, where lazy, at any time."""
    names: set[str] = set()
    for node in ast.walk(module.tree) if lazy else _at_load(module.tree.body):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {part if part in known else node.module for part in parts}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name in known and name != module.name}


def _at_load(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield from _at_load([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _at_load([*node.body, *node.orelse, *node.finalbody])


def cycle(modules: dict[str, Module], *, lazy: bool = False) -> list[str]:
    """Modules that import each other in a circle; empty where there is no circle."""
    graph = {name: imports(module, modules, lazy=lazy) for name, module in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def folders(modules: dict[str, Module]) -> Counter[str]:
    """How many modules stand beside each other in each folder."""
    paths = (module.path for module in modules.values() if module.path.name != "__init__.py")
    return Counter(str(path.parent) for path in paths)


def repeated(modules: dict[str, Module]) -> list[str]:
    """The places of blocks that stand in the product more than once, a line for each first line of a block."""
    places: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for module in modules.values():
        code = list(module.code)
        for start in range(len(code) - BLOCK + 1):
            block = code[start : start + BLOCK]
            places[tuple(text for _, text in block)].append(f"{module.path}:{block[0][0]}")
    return [" ~ ".join(spots) for spots in places.values() if len(spots) > 1]


def main() -> None:
    """Print the counts."""
    modules = product()
    sizes = {module.path: len(module.lines) for module in modules.values()}
    lengths = sorted((length, name) for module in modules.values() for name, length in module.functions)
    short = sum(length < 30 for length, _ in lengths)
    largest = max(sizes, key=lambda path: sizes[path])
    print(f"lines            {sum(sizes.values())} in {len(sizes)} modules")
    print(f"median module    {statistics.median(s for p, s in sizes.items() if p.name != '__init__.py'):.0f} lines")
    print(f"largest module   {largest}, {sizes[largest]} lines")
    print(f"functions        {len(lengths)}, {short / len(lengths):.1%} under 30 lines")
    print(f"longest          {lengths[-1][1]}, {lengths[-1][0]} lines")
    print("folders          " + ", ".join(f"{folder} {count}" for folder, count in folders(modules).most_common(5)))
    print(f"import cycle     {' -> '.join(cycle(modules)) or 'none'}")
    print(f"with lazy ones   {' -> '.join(cycle(modules, lazy=True)) or 'none'}")
    print(f"repeated blocks  {len(repeated(modules))}")
    for places in repeated(modules):
        print(f"  {places}")


if __name__ == "__main__":
    main()
