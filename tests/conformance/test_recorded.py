"""What kube-apiserver's library said to the recorded cases, our engine says too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from conformance.casefile import HERE, files, read
from conformance.ours import faulty, generated_differs

from policies.cel.cases import difference, run
from policies.cel.environment import Dialect
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
