"""An event loop whose clock jumps to the next timer, so that what takes minutes is seen at once and always the same."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumps(selectors.SelectSelector):
    """Waits for nothing, and says for how long it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready. Nothing will ever happen where nothing is ready and no timer is set."""
        ready = super().select(0)
        assert ready or timeout is not None, "everybody waits for ever"
        self.now += timeout or 0.0
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        """The seconds that have passed by jumps."""
        return self._jumps.now


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for timers alone."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(coroutine)
