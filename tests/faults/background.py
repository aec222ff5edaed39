"""An event loop in a thread, for what goes on while the main thread waits for processes that belong to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Self, TypeVar

T = TypeVar("T")

_SECONDS = 120.0


class Background:
    """A loop that runs in this block, and the contexts that were entered in it, which end with it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="background")
        self.stack = AsyncExitStack()

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the contexts, the last one first. Raises what one of them raises."""
        try:
            self.run(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _close(self) -> None:
        await self.stack.aclose()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter a context, to the end of the block."""
        return self.run(self.stack.enter_async_context(context))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)
