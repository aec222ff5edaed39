"""The house rules on structure, which `make figures` prints."""

from __future__ import annotations

import json
from pathlib import Path

import figures
import pytest


@pytest.fixture(scope="module")
def modules() -> dict[str, figures.Module]:
    """The modules of the product."""
    return figures.product()


def test_no_modules_import_each_other(modules: dict[str, figures.Module]) -> None:
    """No import leads back to where it began, not even one that waits for a function's call or for a type checker."""
    assert figures.cycle(modules, lazy=True) == []


def test_nothing_is_written_twice(modules: dict[str, figures.Module]) -> None:
    """No block of six lines stands in two places, tables apart."""
    assert figures.repeated(modules) == []


def test_the_house_does_not_grow(modules: dict[str, figures.Module]) -> None:
    """No count is above its limit. A change that needs more room says why where it raises the limit."""
    limits = json.loads(figures.LIMITS.read_text(encoding="utf-8"))

    assert {name: count for name, count in figures.counts(modules).items() if count > limits[name]} == {}


def _module(name: str, text: str) -> dict[str, figures.Module]:
    return {name: figures.Module(Path(f"{name}.py"), text)}


def test_a_repetition_and_a_circle_would_show() -> None:
    """The counts see what they are for."""
    block = "\n".join(f"    value{number} = {number}" for number in range(6))
    modules = _module("a", f"import b\ndef f():\n{block}\n") | _module("b", f"def g():\n    import a\n{block}\n")

    assert figures.repeated(modules) == ["a.py:3 ~ b.py:3"]
    assert (figures.cycle(modules), len(figures.cycle(modules, lazy=True))) == ([], 3)
    assert figures.lone(modules) == ["a", "b"]
