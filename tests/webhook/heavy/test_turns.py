"""Turns: one at a time, and no tenant keeps the others waiting for all of its own."""

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest
from support import virtualtime

from webhook.heavy import WAITING, WAITING_OF_ONE, NoTurnError, Turns


def _later() -> float:
    return asyncio.get_running_loop().time() + 3600


async def _wait_for(queue: Turns, count: int) -> None:
    while queue.waiting < count:  # noqa: ASYNC110 - nobody is told of it but this test
        await asyncio.sleep(0)


def test_tenants_take_turns() -> None:
    """Whoever asks ten times before another asks once does not come ten times first."""

    async def scenario() -> str:
        queue, order = Turns(), []

        async def work(tenant: str) -> None:
            async with queue.turn(tenant, _later()):
                order.append(tenant)
                await asyncio.sleep(1)

        await asyncio.gather(*map(work, "aaaabbc"))
        assert queue.waiting == 0
        return "".join(order)

    assert virtualtime.run(scenario()) == "abcabaa"


def test_a_turn_ends_for_another_tenant() -> None:
    """A turn is told once to end when another tenant's share of time begins, and not for a further one of the same."""

    async def scenario() -> list[float]:
        loop, queue, ends = asyncio.get_running_loop(), Turns(), list[float]()

        async def work(tenant: str, seconds: float) -> None:
            with suppress(NoTurnError):
                async with queue.turn(tenant, loop.time() + seconds):
                    pass

        async with queue.turn("a", _later()) as turn:
            turn.end = lambda: ends.append(loop.time())
            first = asyncio.create_task(work("a", 60))
            await asyncio.sleep(10)
            others = asyncio.gather(work("b", 8), work("b", 8))
            await asyncio.sleep(6)
        await asyncio.gather(first, others)
        return ends

    assert virtualtime.run(scenario()) == [14.0]


async def test_no_turn_after_the_deadline() -> None:
    """Waiting counts towards the time of the review; who gives up is forgotten, and the next one has the turn."""
    queue, done = Turns(), []
    async with queue.turn("a", _later()):
        with pytest.raises(NoTurnError, match="no time was left"):
            async with queue.turn("b", asyncio.get_running_loop().time()):
                raise AssertionError
        assert queue.waiting == 0
    async with queue.turn("c", _later()):
        done.append("c")

    assert done == ["c"]


async def test_who_waits_may_be_cancelled() -> None:
    """A cancelled call leaves no gap: the turn goes to the next one."""
    queue, order = Turns(), []

    async def work(tenant: str) -> None:
        async with queue.turn(tenant, _later()):
            order.append(tenant)

    async with queue.turn("a", _later()):
        first, second = (asyncio.create_task(work(tenant)) for tenant in "bc")
        await _wait_for(queue, 2)
        first.cancel()
    async with asyncio.timeout(60):
        await second

    assert order == ["c"]


async def test_the_queue_is_bounded() -> None:
    """Neither one tenant nor all together fill the memory with reviews that wait."""
    queue = Turns()

    async def work(tenant: str) -> None:
        async with queue.turn(tenant, _later()):
            pass

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(queue.turn("a", _later()))
        tasks = [asyncio.create_task(work("a")) for _ in range(WAITING_OF_ONE)]
        await _wait_for(queue, WAITING_OF_ONE)
        with pytest.raises(NoTurnError, match="too many"):
            await work("a")
        tasks += [asyncio.create_task(work(f"t{number}")) for number in range(WAITING - WAITING_OF_ONE)]
        await _wait_for(queue, WAITING)
        with pytest.raises(NoTurnError, match="too many"):
            await work("b")
    await asyncio.gather(*tasks)
    assert queue.waiting == 0
