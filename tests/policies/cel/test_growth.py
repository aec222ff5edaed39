"""An expression is compiled in time in proportion to its length. Steps are counted: clocks depend on machines."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest
from conformance.casefile import files, read
from support.cel.celshapes import SHAPES, Shape

from policies.cel.checker import check
from policies.cel.environment import Dialect
from policies.cel.evaluation.plan import PlanError, plan
from policies.cel.generation.codegen import generate
from policies.cel.kubernetes import admission
from policies.cel.library.regex import compile_pattern
from policies.cel.reads import reads
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source

ENVIRONMENT = admission(patch_types=True, dialect=Dialect(stored=True))


def _steps(texts: Iterable[str]) -> int:
    """How many functions are called to compile texts, of Python and of C."""
    calls = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before, limit = sys.getprofile(), sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # at a RecursionError Python would count no further
    sys.setprofile(counted)
    try:
        for text in texts:
            _compile(text)
    finally:
        sys.setprofile(before)
        sys.setrecursionlimit(limit)
    return calls


def _compile(text: str) -> None:
    """All that is done with an expression when a policy is loaded, without what is kept for the next time."""
    source = Source(text)
    try:
        tree = parse(source)
        check(tree, source, ENVIRONMENT)
        plan(tree)
    except (CompileError, PlanError) as error:
        str(error)
        return
    generate(tree)
    reads(tree, {})


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_work_is_in_proportion_to_the_length(shape: Shape) -> None:
    """A text of four times the length takes at most five times the steps, and no more than 400 for each character."""
    compile_pattern.cache_clear()
    small, large = shape(1_500), shape(6_000)
    few, many = _steps([small]), _steps([large])

    assert many <= 5 * few * len(large) / (4 * len(small)) + 1_000
    assert many <= 400 * len(large) + 100_000


def test_the_recorded_expressions() -> None:
    """All expressions recorded from Kubernetes compile within so many steps for each of their characters."""
    texts = sorted({case.expression for path in files() for case in read(path)})

    assert _steps(texts) <= 40 * sum(map(len, texts))
