"""Counts of the product's source: what `make figures` prints, and what tests/test_figures.py holds."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("certs", "cks_admission", "policies", "webhook")
LIMITS = ROOT / "tests" / "figures.json"
"""The counts that may only fall: `make figures` lowers them."""
BLOCK = 6
"""So many lines that stand in two places are a repeated block."""
LONG = 250
"""A module of so many lines may stand alone beside its only importer."""


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


def lone(modules: dict[str, Module]) -> list[str]:
    """Modules that one other module imports and nobody else, unless both are long enough to stand alone."""
    importers: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in modules.items():
        for other in imports(module, modules, lazy=True):
            importers[other].append(name)
    pairs = ((name, names[0]) for name, names in importers.items() if len(names) == 1)
    return sorted(name for name, other in pairs if min(len(modules[name].lines), len(modules[other].lines)) <= LONG)


def knot(modules: dict[str, Module]) -> list[str]:
    """The largest set of folders each of which needs all the others, by what their modules import."""
    reach: defaultdict[Path, set[Path]] = defaultdict(set)
    for module in modules.values():
        others = {modules[name].path.parent for name in imports(module, modules, lazy=True)}
        reach[module.path.parent] |= others - {module.path.parent}
    for middle in list(reach):
        for folder in reach:
            if middle in reach[folder]:
                reach[folder] |= reach[middle]
    knots = ({other for other in reach[folder] if folder in reach[other]} for folder in reach)
    return max((sorted(map(str, folders)) for folders in knots), key=len)


def repeated(modules: dict[str, Module]) -> list[str]:
    """The places of blocks that stand in the product more than once, a line for each first line of a block."""
    places: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for module in modules.values():
        code = list(module.code)
        for start in range(len(code) - BLOCK + 1):
            block = code[start : start + BLOCK]
            places[tuple(text for _, text in block)].append(f"{module.path}:{block[0][0]}")
    return [" ~ ".join(spots) for spots in places.values() if len(spots) > 1]


def counts(modules: dict[str, Module]) -> dict[str, int]:
    """What a change may lower and never raise, by its name in LIMITS."""
    tests = (ROOT / "tests").rglob("*.py")
    return {
        "lines": sum(len(module.lines) for module in modules.values()),
        "modules": len(modules),
        "lines of tests": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests),
        "modules with one importer": len(lone(modules)),
        "folders in one knot of imports": len(knot(modules)),
    }


def main() -> None:
    """Print the counts, in all and by folder, and lower the limits to them."""
    modules = product()
    limits, now = json.loads(LIMITS.read_text(encoding="utf-8")), counts(modules)
    for name, count in now.items():
        print(f"{count:>7} {name} (at most {limits[name]})")
    by_folder: dict[Path, list[int]] = {}
    for module in modules.values():
        by_folder.setdefault(Path(*module.path.parts[:-1][:2]), []).append(len(module.lines))
    for folder, lengths in sorted(by_folder.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(lengths):>7} in {len(lengths):>3} modules  {folder}")
    print("\n".join(("Modules with one importer", *lone(modules), "", "Folders in one knot", *knot(modules))))
    print("\n".join(("", "Import cycle", *cycle(modules, lazy=True), "", "Repeated blocks", *repeated(modules))))
    lower = {name: min(count, limits[name]) for name, count in now.items()}
    LIMITS.write_text(json.dumps(lower, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
