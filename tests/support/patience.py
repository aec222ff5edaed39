"""How long tests wait for something that happens by itself."""

import asyncio
from collections.abc import Callable

# Far above what anything here takes, in seconds: a test that comes near it waits for what never comes.
PATIENCE = 180.0


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until a condition is true. Fails if it never is."""
    pause = 0.001
    async with asyncio.timeout(PATIENCE):
        while not condition():  # what is waited for knows nothing of the test
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.032)  # where it takes long, looking for it leaves the processor to it
