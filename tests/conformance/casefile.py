"""Reads the case files beside this one, whose form `policies.cel.cases` knows; whether our evaluators agree on one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from policies.cel.cases import CelCase, bound, cases, compiled, encode
from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.environment import STORED, Dialect
from policies.cel.syntax.source import CompileError
from policies.cel.values import type_of

HERE = Path(__file__).parent


def files() -> list[Path]:
    """The recorded files."""
    return sorted(HERE.glob("*.yaml"))


@cache
def read(path: Path) -> tuple[CelCase, ...]:
    """The cases of one file, which is parsed once for all tests."""
    return cases(yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader))


def generated_differs(case: CelCase, dialect: Dialect = STORED) -> str | None:
    """In which way the generated function differs from the exact evaluator: it may hand over, but say nothing else."""
    try:
        program, composition = compiled(case, dialect)
    except CompileError:
        return None
    function = None if program.generated is None else program.generated.load()
    if function is None:
        return None
    names = bound(case.inputs, composition)
    try:
        value, cost = function(names, EXPRESSION_LIMIT, None)
    except Exception:  # noqa: BLE001 - whatever it raises, it hands over
        return None
    if cost > EXPRESSION_LIMIT:
        return None
    exact_names = bound(case.inputs, composition)
    exact = program.evaluate_exactly(exact_names)
    found = (encode(value), type_of(value).name, cost + names["variables"].cost)
    expected = (encode(exact.value), type_of(exact.value).name, exact.cost + exact_names["variables"].cost)
    if exact.error is not None:
        return f"generated: {found}, exactly: {exact.error}"
    return None if repr(found) == repr(expected) else f"generated: {found}, exactly: {expected}"


def faulty(case: CelCase, dialect: Dialect = STORED) -> bool:
    """Whether generated code has failed in an evaluation of this case in which nothing was wrong."""
    try:
        return compiled(case, dialect)[0].faults > 0
    except CompileError:
        return False
