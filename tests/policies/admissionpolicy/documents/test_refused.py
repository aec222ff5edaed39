"""What the API server refuses is refused in its words, and what it takes is taken."""

from __future__ import annotations

import pytest
from support.policies import randompolicies
from support.policies.refusedpolicies import Case, cases, without_own_words

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.cel.environment import Dialect
from policies.kubernetes.release import FINAL, NEWEST, Release

CASES = cases(NEWEST)
TOLD = {
    f"{release.name}: {name}": (case, release)
    for release in FINAL
    for name, case in cases(release).items()
    if case.says != CASES[name].says or release == NEWEST
}


@pytest.mark.parametrize(("case", "release"), TOLD.values(), ids=TOLD)
def test_words_are_those_of_the_api_server(case: Case, release: Release) -> None:
    """Each field that is wrong is named, in the API server's order and words, and nothing else."""
    document = Document(value=case.document, name="policy.yaml", places=lambda _: (1, 1))

    found = [problem.text for problem in read([document], dialect=Dialect(release)).errors]

    told = [text for text in found if ": Not found: " not in text]
    assert [without_own_words(text) for text in told] == [without_own_words(text) for text in case.says]


def test_table_is_large() -> None:
    """The table has grown to what it is for a reason: nothing falls out of it unseen."""
    refused = [name for name, case in CASES.items() if case.says]

    assert len(refused) >= 170


def test_no_document_is_too_strange_to_be_read() -> None:
    """Whatever stands in a document, reading it ends in problems or in a value, never in an exception."""
    found = [
        read([Document(value=document, name="policy.yaml", places=lambda _: (1, 1))])
        for document in randompolicies.documents(seed=7, count=500)
    ]

    kinds = {(bool(loaded.errors), bool(loaded.policies or loaded.bindings)) for loaded in found}
    assert kinds == {(True, False), (True, True), (False, True)}  # with both: a binding whose policy is missing
