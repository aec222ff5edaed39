"""What differs between the releases of Kubernetes; the recorded cases show it in effect."""

from __future__ import annotations

import pytest

from policies.cel.environment import NEW, STORED, Dialect, Feature
from policies.cel.kubernetes import FORMER, admission
from policies.kubernetes.release import RELEASES, named

_BEFORE = dict(zip(RELEASES[1:], RELEASES, strict=False))


@pytest.mark.parametrize(
    ("dialect", "known"),
    [
        (STORED, True),
        (NEW, False),
        (Dialect(named("1.36"), stored=True), False),
        (Dialect(named("1.36")), False),
    ],
    ids=str,
)
def test_a_new_library_is_for_stored_expressions_first(dialect: Dialect, known: bool) -> None:  # noqa: FBT001
    """Functions of a library that came with a release are known to the expressions that it has stored."""
    assert (admission(dialect=dialect).function("includes") is not None) is known
    assert admission(dialect=dialect).function("isSorted") is not None


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_the_language_is_that_of_the_release(feature: Feature) -> None:
    """New and stored expressions have the language of the release, and releases before it do not."""
    assert Dialect(feature.since).has(feature)
    assert Dialect(feature.since, stored=True).has(feature)
    assert not Dialect(_BEFORE[feature.since], stored=True).has(feature)


def test_functions_are_the_former_ones_before_a_change() -> None:
    """Each overload of the table is there before its release, and no longer with it."""
    for change in FORMER:
        former = admission(dialect=Dialect(_BEFORE[change.until], stored=True)).functions
        present = admission(dialect=Dialect(change.until, stored=True)).functions
        for name, call in change.calls.items():
            assert former[name].call is call is not present[name].call
        for name, overloads in change.overloads.items():
            assert set(overloads) <= set(former[name].overloads)
            assert not set(overloads) & set(present[name].overloads)
