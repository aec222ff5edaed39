"""What is exported of the packs gives the answers of their suites, by the API server's rules alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.policies import packs

from policies.admissionpolicy.templates import budget

if TYPE_CHECKING:
    from support.policies.packs import PackPolicy

    from policies.suite import Expectation


def _texts(outcome: Expectation) -> list[tuple[str, ...]]:
    return [outcome.messages, outcome.warnings, outcome.audit]


def _is_said(expected: str, text: str) -> bool:
    """Whether a text has the sentence of the service, which names the places after it."""
    return expected.split("\n", maxsplit=1)[0].split(" (spec", maxsplit=1)[0] in text


@pytest.mark.parametrize("policy", packs.shipped(), ids=lambda policy: policy.name)
def test_the_suite_holds_without_the_service(policy: PackPolicy) -> None:
    """Each case has the same verdict, and the same sentences in the same number."""
    wrong = []
    for case in policy.suite.cases:
        outcome = packs.alone(policy, case)
        expected, texts = _texts(case.expect), _texts(outcome)
        said = [
            len(one) == len(other) and all(map(_is_said, one, other))
            for one, other in zip(expected, texts, strict=True)
        ]
        if outcome.verdict != case.expect.verdict or not all(said):
            wrong.append((case.name, expected, texts))
    assert wrong == []


@pytest.mark.parametrize("policy", packs.shipped(), ids=lambda policy: policy.name)
def test_the_suite_stays_within_the_limits(policy: PackPolicy) -> None:
    """No expression, and no policy with a binding, costs more for a case than the API server allows."""
    measured = [
        (name, case.name, spent) for case in policy.suite.cases for name, spent in packs.spent(policy, case).items()
    ]

    assert [(name, line) for name, case, spent in measured for line in budget.over(spent, case)] == []
    assert all(sum(cost for _, cost in spent) > 0 for _, _, spent in measured)
    assert measured
