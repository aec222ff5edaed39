"""Starts and ends the tasks that follow objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from webhook.cluster.watches.reflector import Reflector


def started(reflectors: Iterable[Reflector[Any]]) -> list[asyncio.Task[NoReturn]]:
    """A running task for each reflector, named after its resource."""
    return [asyncio.create_task(reflector.run(), name=reflector.resource.name) for reflector in reflectors]


class Followers:
    """Base class: follows objects with reflectors, from `start` to `stop`."""

    _reflectors: Sequence[Reflector[Any]]
    _tasks: Sequence[asyncio.Task[NoReturn]] = ()

    async def start(self) -> None:
        """Begin to follow; `unsynced` tells whether the first lists have arrived."""
        self._tasks = started(self._reflectors)

    async def stop(self) -> None:
        """Stop following."""
        await cancelled(self._tasks)

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed, except kinds that the API server does not serve."""
        return [reflector for reflector in self._reflectors if reflector.status != 404]


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    running = list(tasks)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
