"""What kube-apiserver's library said to the recorded cases, our engine says too."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from conformance.casefile import HERE, files, read
from conformance.ours import generated_differs, ours

from policies.cel.cases import Case, difference

_FEWEST = 5_600
_KEPT = {
    "attributes.yaml": 351,
}

each_file = pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)


@cache
def _cases(path: Path) -> tuple[Case, ...]:
    return read(path)


@each_file
def test_answers_are_kubernetes_own(path: Path) -> None:
    """Value, type, error, stage and cost of every recorded expression are those of kube-apiserver."""
    different = {case.id: found for case in _cases(path) if (found := difference(case, ours(case)))}
    assert different == {}


@each_file
def test_generated_functions_agree_with_the_exact_evaluator(path: Path) -> None:
    """A generated function gives the value and cost of the exact evaluator, or hands over to it."""
    different = {case.id: found for case in _cases(path) if (found := generated_differs(case))}
    assert different == {}
