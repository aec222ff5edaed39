"""What is exported of the packs gives the answers of their suites, by the API server's rules alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.policies import packs

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.parameters import StaticParameters
from policies.admissionpolicy.rules.suiterun import SuiteRun
from policies.admissionpolicy.templates.assembly import exported
from policies.objects.workload import BUILT_IN, table

if TYPE_CHECKING:
    from support.policies.packs import PackPolicy

    from policies.suite import Expectation


def _texts(outcome: Expectation) -> list[tuple[str, ...]]:
    return [outcome.messages, outcome.warnings, outcome.audit]


def _is_said(expected: str, text: str) -> bool:
    """Whether a text has the sentence of the service, which names the places after it."""
    return expected.split("\n", maxsplit=1)[0].split(" (spec", maxsplit=1)[0] in text


def _run(policy: PackPolicy) -> SuiteRun:
    """The policies of a folder, and what is exported of them."""
    made = [
        exported(each, [b for b in policy.loaded.bindings if b.policy_name == each.name], table(BUILT_IN))
        for each in policy.loaded.policies
    ]
    assert [result.errors for result in made] == [()] * len(made)
    documents = [document for result in made for document in (*result.policies, *result.bindings)]
    loaded = read(
        Document(value=each, name="exported", places=lambda _: (1, 1)) for each in [*policy.documents, *documents]
    )
    assert loaded.errors == ()
    return SuiteRun(loaded, StaticParameters([document.value for document in loaded.context]))


@pytest.mark.parametrize("policy", packs.shipped(), ids=lambda policy: policy.name)
def test_the_suite_holds_without_the_service(policy: PackPolicy) -> None:
    """Each case has the same verdict, and the same sentences in the same number."""
    run = _run(policy)
    wrong = []
    for case in policy.suite.cases:
        outcome = run.outcome(replace(case, derived=False))
        expected, texts = _texts(case.expect), _texts(outcome)
        said = [
            len(one) == len(other) and all(map(_is_said, one, other))
            for one, other in zip(expected, texts, strict=True)
        ]
        if outcome.verdict != case.expect.verdict or not all(said):
            wrong.append((case.name, expected, texts))
    assert wrong == []
