"""docs/reference/compatibility.md says what the proofs said when they were recorded, about the cases that there are."""

from __future__ import annotations

import yaml
from cluster import mutations
from cluster.policycases import mixed, products, typed
from cluster.policycases import written as tables

from compatibility.page import PAGE, SUBJECTS, written
from compatibility.recording import RESULTS
from policies.kubernetes.release import FINAL

_RECORDED = yaml.safe_load(RESULTS.read_text(encoding="utf-8"))


def test_the_page_shows_the_results() -> None:
    """`make releases` writes the tables; nobody else does."""
    page = PAGE.read_text(encoding="utf-8")

    assert written(page) == page


def test_every_release_is_recorded_with_the_cases_that_there_are() -> None:
    """A release without a proof, or one of other cases, is not called proven."""
    policies = [case for cases in (products.CASES, *tables.CASES.values(), mixed.CASES, typed.CASES) for case in cases]
    cases = {
        "merges": len(mutations.CASES) + 2,  # and that the shipped tables are the API server's
        "policies": sum(len(case.asks) for case in policies) + 1,  # and that the proof is large
    }

    assert _RECORDED.keys() == {release.proven for release in FINAL}
    assert [subjects.keys() ^ SUBJECTS.keys() for subjects in _RECORDED.values()] == [{"expressions", "costs"}] * 2
    assert [{name: subjects[name]["cases"] for name in cases} for subjects in _RECORDED.values()] == [cases] * 2


def test_no_difference_is_unknown() -> None:
    """What differs is known and told on the page; a proof that failed when it was recorded is neither."""
    differences = [
        text for subjects in _RECORDED.values() for each in subjects.values() for text in each["differences"]
    ]

    assert [text for text in differences if text.endswith("it fails")] == []
    page = PAGE.read_text(encoding="utf-8").partition("end of results")[2]
    assert [text for text in differences if f"`{text.split()[0]}" not in page] == []
