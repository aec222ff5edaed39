from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.patience import PATIENCE

from policies.cel.recursion import NestingError, deeply


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


def test_threads_share_the_limit() -> None:
    """A thread that is done takes no room from another one that is deep down, and the last one gives it back."""
    usual = sys.getrecursionlimit()
    down, done = threading.Event(), threading.Event()

    def stay(depth: int) -> int:
        if depth:
            return 1 + stay(depth - 1)
        down.set()
        assert done.wait(PATIENCE)
        return _dive(500)

    with ThreadPoolExecutor(1) as pool:
        staying = pool.submit(deeply, lambda: stay(usual + 1000))
        assert down.wait(PATIENCE)
        assert deeply(lambda: _dive(usual + 1000)) == usual + 1000
        assert sys.getrecursionlimit() > usual
        done.set()
        assert staying.result(PATIENCE) == usual + 1500

    assert sys.getrecursionlimit() == usual
