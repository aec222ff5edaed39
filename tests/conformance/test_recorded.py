"""What kube-apiserver's library said to the recorded cases, our engine says too, and so does the grammar of others."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from celpy.celparser import CELParseError, CELParser
from conformance.casefile import HERE, faulty, files, generated_differs, read

from policies.cel.cases import difference, run
from policies.cel.environment import Dialect
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source
from policies.kubernetes.release import RELEASES, Release

FEWEST = {
    "attributes": 351,
    "cel_spec_core": 849,
    "cel_spec_types": 541,
    "costs": 143,
    "edges": 1338,
    "extlists": 157,
    "found": 147,
    "golang": 168,
    "kubernetes": 139,
    "libraries": 864,
    "macros": 393,
    "mutation": 171,
    "operators": 939,
    "optionals": 316,
    "real_deployment": 134,
    "real_ingress": 14,
    "real_node": 10,
    "real_pod": 134,
    "real_service": 14,
    "releases": 150,
    "stdlib": 681,
    "strings": 358,
    "syntax": 659,
    "variables": 134,
}


@pytest.fixture(params=files(), ids=lambda path: path.stem, scope="module", name="path")
def _path(request: pytest.FixtureRequest) -> Path:
    """One file after the other: within one, what is compiled is kept."""
    found: Path = request.param
    return found


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_answers_are_kubernetes_own(path: Path, release: Release) -> None:
    """Value, type, error, stage and cost of every recorded expression are those of either release of kube-apiserver."""
    dialect = Dialect(release, stored=True)
    different = {case.id: found for case in read(path) if (found := difference(case, run(case, dialect), release))}
    assert different == {}


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_generated_functions_agree_with_the_exact_evaluator(path: Path, release: Release) -> None:
    """A generated function gives the value and cost of the exact evaluator, or hands over to it."""
    dialect = Dialect(release, stored=True)
    different = {case.id: found for case in read(path) if (found := generated_differs(case, dialect))}
    assert different == {}
    assert [case.id for case in read(path) if faulty(case, dialect)] == []


def test_every_case_is_recorded_under_an_id_of_its_own(path: Path) -> None:
    """No case is without an expectation of either release, and none hides another."""
    found = read(path)
    assert [case.id for case in found for release in RELEASES if case.expected(release) is None] == []
    assert [name for name, count in Counter(case.id for case in found).items() if count > 1] == []


def test_no_file_loses_cases() -> None:
    """Every file has at least the cases that it had when this list was written."""
    counts = {path.stem: len(read(path)) for path in files()}
    assert {name: counts.get(name) for name, fewest in FEWEST.items() if counts.get(name, 0) < fewest} == {}
    assert counts.keys() == FEWEST.keys()


def test_excluded_cases_say_why() -> None:
    """What the engine leaves out on purpose is kept beside the cases, with the reason in the file's note."""
    for path in sorted((HERE / "excluded").glob("*.yaml")):
        assert "Not read as conformance cases." in path.read_text(encoding="utf-8")
        assert read(path)


BEYOND = re.compile(r"\.\?|\[\?|[{,\[(]\s*\?|,\s*[\])}]|`")
"""Syntax that is newer than cel-python: optionals, trailing commas, quoted names."""

WE_REFUSE = {
    r"argument (must be|is not)|variable name|(duplicate|iteration) variable|has\(\) macro|sortBy can": (
        "rules of macros, which its grammar does not know"
    ),
    r"invalid (int|uint|double) literal|invalid unicode|unescape|string is not closed|no such token|unexpected `b`": (
        "it looks at ranges and escapes later"
    ),
    r"reserved identifier|unexpected `(in|null)`": "it takes keywords for names where they cannot mean anything else",
    r"may follow `!-`|a parenthesis is missing|end of the expression: a name": "it reads `-!x`, and `1.` as a number",
}
"""What our parser says of expressions that cel-python accepts, and why that is right."""
THEY_REFUSE = {r"\d\.[a-z]": "it reads the point of `1.size()` as that of a number"}
"""Expressions that cel-python refuses, and why they are right."""


def _explained(explanations: dict[str, str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in explanations)


def test_another_parser_accepts_the_same_expressions() -> None:
    """cel-python's parser accepts and refuses what ours does, but for the differences listed above."""
    theirs = CELParser()
    expressions = {case.expression for path in files() for case in read(path)}
    unexplained = {}
    for expression in sorted(expressions):
        if BEYOND.search(expression):
            continue
        refusal, accepted = None, True
        try:
            parse(Source(expression))
        except CompileError as error:
            refusal = error.reference()
        try:
            theirs.parse(expression)
        except CELParseError:
            accepted = False
        if refusal is not None and accepted and not _explained(WE_REFUSE, refusal):
            unexplained[expression] = refusal
        elif refusal is None and not accepted and not _explained(THEY_REFUSE, expression):
            unexplained[expression] = "cel-python refuses it"
    assert unexplained == {}
