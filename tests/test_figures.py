"""The house rules on size, which `make figures` prints."""

from __future__ import annotations

import statistics
from pathlib import Path

import figures
import pytest


@pytest.fixture(scope="module")
def modules() -> dict[str, figures.Module]:
    """The modules of the product."""
    return figures.product()


def test_folders_are_small(modules: dict[str, figures.Module]) -> None:
    """No folder of the product has more than 15 modules beside each other."""
    assert {folder: count for folder, count in figures.folders(modules).items() if count > 15} == {}


def test_modules_are_small(modules: dict[str, figures.Module]) -> None:
    """No module has more than 450 lines, and half of them have fewer than 130."""
    sizes = {name: len(module.lines) for name, module in modules.items() if module.path.name != "__init__.py"}

    assert {name: size for name, size in sizes.items() if size > 450} == {}
    assert statistics.median(sizes.values()) < 130


def test_functions_are_short(modules: dict[str, figures.Module]) -> None:
    """99 of 100 functions have fewer than 30 lines."""
    lengths = [length for module in modules.values() for _, length in module.functions]

    assert sum(length < 30 for length in lengths) >= 0.99 * len(lengths)


def test_no_modules_import_each_other(modules: dict[str, figures.Module]) -> None:
    """No import leads back to where it began, not even one that waits for a function's call or for a type checker."""
    assert figures.cycle(modules, lazy=True) == []


def test_nothing_is_written_twice(modules: dict[str, figures.Module]) -> None:
    """No block of six lines stands in two places, tables apart."""
    assert figures.repeated(modules) == []


def _module(name: str, text: str) -> dict[str, figures.Module]:
    return {name: figures.Module(Path(f"{name}.py"), text)}


def test_a_repetition_and_a_circle_would_show() -> None:
    """The counts see what they are for."""
    block = "\n".join(f"    value{number} = {number}" for number in range(6))
    modules = _module("a", f"import b\ndef f():\n{block}\n") | _module("b", f"def g():\n    import a\n{block}\n")

    assert figures.repeated(modules) == ["a.py:3 ~ b.py:3"]
    assert (figures.cycle(modules), len(figures.cycle(modules, lazy=True))) == ([], 3)
