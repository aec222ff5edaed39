from __future__ import annotations

import sys

import pytest

from policies.cel.evaluation.recursion import NestingError, deeply


def _dive(depth: int) -> int:
    return 0 if depth == 0 else 1 + _dive(depth - 1)


def test_usual_depths_need_no_room() -> None:
    """A function that returns is called once, at the usual limit."""
    usual, limits = sys.getrecursionlimit(), []

    assert deeply(lambda: limits.append(sys.getrecursionlimit())) is None
    assert limits == [usual]


def test_deeper_than_usual() -> None:
    """What needs more frames than usual gets them, and afterwards the limit is as before."""
    usual = sys.getrecursionlimit()
    depth = usual + 1000

    assert deeply(lambda: _dive(depth)) == depth
    assert sys.getrecursionlimit() == usual


def test_without_end() -> None:
    """What has no end is an error of its own, also within one another, and the limit is as before."""
    usual = sys.getrecursionlimit()

    with pytest.raises(NestingError):
        deeply(lambda: _dive(10**9))
    with pytest.raises(NestingError):
        deeply(lambda: deeply(lambda: _dive(10**9)))
    assert sys.getrecursionlimit() == usual


def test_other_failures_pass_through() -> None:
    """Any other exception is not tried again."""
    calls: list[int] = []

    def failing() -> None:
        calls.append(1)
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        deeply(failing)
    assert calls == [1]
