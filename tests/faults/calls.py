"""Reviews at a steady rate while a fault goes on: how long each answer took, and what was wrong with it."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from support.service.reviews import answer_of
from support.service.wire import Wire, connected, head

from faults.documents import Review
from faults.process import Process
from faults.table import broken

SECONDS = 5.0
"""How long the API server waits for the guard, and a kubelet for /livez. What comes later is lost."""
_PROMPT_SECONDS = 1.0  # whoever waits longer for a write takes the cluster for broken
_LATE_SECONDS = 4.0  # an authorization check may take three
BROKEN = (OSError, TimeoutError, asyncio.IncompleteReadError)


class Target(Protocol):
    """Who is called, on a port of this machine, and how that is trusted."""

    @property
    def port(self) -> int:
        """The TLS port."""

    @property
    def context(self) -> ssl.SSLContext:
        """The trust in it."""


class Address(NamedTuple):
    """A target that stays where it is."""

    port: int
    context: ssl.SSLContext


@dataclass
class Calls:
    """What became of calls. seconds: of the answers, from when a call was due. late: how many of them were too late.

    trouble: when the last one ended ill.
    """

    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    trouble: float = 0.0
    late: int = 0

    @property
    def slowest(self) -> float:
        """The longest answer, in seconds."""
        return max(self.seconds, default=0.0)

    @property
    def p99(self) -> float:
        """What 99 of 100 answers took at most, in seconds."""
        ordered = sorted(self.seconds)
        return ordered[len(ordered) * 99 // 100] if ordered else 0.0

    @property
    def without_answer(self) -> str:
        """How many calls had no answer, and why."""
        reasons = ", ".join(f"{count} times {reason}" for reason, count in self.lost.most_common(3))
        return f"{self.lost.total():,} of {len(self.seconds) + self.lost.total():,} calls without an answer ({reasons})"

    @property
    def summary(self) -> str:
        """What was lost, for the table."""
        parts = [self.without_answer] if self.lost else []
        parts += [f"{self.late:,} of {len(self.seconds):,} answers later than {SECONDS:g} s"] if self.late else []
        parts += [f"{len(self.wrong)} wrong verdicts ({self.wrong[0]})"] if self.wrong else []
        return "; ".join(parts) or f"nothing of {len(self.seconds):,} calls"

    @property
    def flawless(self) -> bool:
        """Whether every call was answered rightly."""
        return not self.lost and not self.wrong

    def slow(self, name: str, seconds: float = _PROMPT_SECONDS) -> tuple[str, ...]:
        """Of the promises that 99 of 100 answers came within seconds, and none too late, those that did not hold."""
        return broken(
            {
                f"{name} p99 under {seconds * 1e3:g} ms": 0 < self.p99 < seconds,
                f"{name} never later than {SECONDS:g} s": not self.late,
            }
        )

    def taken(self) -> Calls:
        """What there was since it was taken last; it is empty then."""
        since = Calls(self.seconds, self.wrong, self.lost, self.trouble, self.late)
        self.seconds, self.wrong, self.lost, self.late = [], [], Counter(), 0
        return since

    def healthy_after(self, moment: float) -> float:
        """The seconds from a moment to the last call that ended ill, 0 for none since."""
        return max(0.0, self.trouble - moment)

    def answered(self, seconds: float) -> None:
        """Note an answer as it has to be, but for its time."""
        self.seconds.append(seconds)
        if seconds > SECONDS:
            self.late += 1
            self.trouble = time.monotonic()

    def failed(self, reason: str) -> None:
        """Note a call without an answer."""
        self.lost[reason] += 1
        self.trouble = time.monotonic()

    def misjudged(self, what: str) -> None:
        """Note a wrong verdict."""
        self.wrong.append(what)
        self.trouble = time.monotonic()


@asynccontextmanager
async def calling(
    target: Target, reviews: Sequence[Review], rate: float, callers: int = 4, *, keep: bool = True
) -> AsyncIterator[Calls]:
    """Call at a rate a second in this block, by some callers with a connection each that is made again if it ends.

    keep: whether a connection is used again at all.
    """
    calls = Calls()
    period = callers / rate
    async with looping([_Caller(target, reviews, period, calls, keep=keep).call_on() for _ in range(callers)]):
        yield calls


@asynccontextmanager
async def probing(process: Process, pause: float = 0.1) -> AsyncIterator[Calls]:
    """Ask /livez again and again in this block, on a new connection each time, as a kubelet does."""
    calls = Calls()

    async def ask() -> None:
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(SECONDS), connected(process.health) as wire:
                    await wire.send(head("/livez", 0, method="GET"))
                    status = (await wire.reply()).status
            except BROKEN as error:
                calls.failed(reason(error))
            else:
                calls.answered(time.monotonic() - began) if status == 200 else calls.failed(f"HTTP {status}")
            await asyncio.sleep(pause)

    async with looping([ask()]):
        yield calls


@asynccontextmanager
async def looping(works: Sequence[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Let endless works go on in this block. Raises what made one of them fail."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


class _Caller:
    """One caller, who calls with a period on one connection as long as that is there."""

    def __init__(self, target: Target, reviews: Sequence[Review], period: float, calls: Calls, *, keep: bool) -> None:
        self._target = target
        self._context = target.context
        self._keep = keep
        self._period = period
        self._calls = calls
        self._due = time.monotonic()
        self._reviews = itertools.cycle(reviews)

    async def call_on(self) -> None:
        """Call for ever."""
        while True:
            try:
                await self._call_on()
            except BROKEN as error:
                self._calls.failed(reason(error))
                self._due = max(self._due, time.monotonic()) + self._period
                await asyncio.sleep(self._period)

    async def _call_on(self) -> None:
        """Call on one connection, of which the first call is due when it is begun, until it ends."""
        self._due += self._period
        await asyncio.sleep(self._due - time.monotonic())
        async with connected(self._target.port, self._context) as wire:
            while await self._call(wire):
                self._due += self._period
                await asyncio.sleep(self._due - time.monotonic())

    async def _call(self, wire: Wire) -> bool:
        """Call now. Returns whether the connection goes on."""
        review = next(self._reviews)
        sent = time.monotonic()
        try:
            async with asyncio.timeout(SECONDS):
                reply = await wire.call(review.body, review.path)
        except asyncio.CancelledError:
            if time.monotonic() > sent + _LATE_SECONDS:  # or it was begun just before the end
                self._calls.failed("none by the end")
            raise
        if reply.status != 200:
            self._calls.failed(f"HTTP {reply.status}")
        elif (allowed := answer_of(reply.body)["allowed"]) is not review.allowed:
            self._calls.misjudged(f"allowed was {allowed} at {review.path}")
        else:
            took = time.monotonic() - self._due
            self._calls.answered(took)
            self._due += took if took > SECONDS else 0.0  # whoever waited has given up: the next one is not late by it
        return self._keep and not reply.closes


def reason(error: BaseException) -> str:
    """Why a call had no answer, in a few words."""
    match error:
        case TimeoutError():
            return f"no answer in {SECONDS:g} s"
        case ConnectionRefusedError():
            return "connection refused"
        case asyncio.IncompleteReadError() | ConnectionError():
            return "connection broken"
        case ssl.SSLCertVerificationError():
            return error.verify_message
        case _:
            return type(error).__name__


T = TypeVar("T")

_WORK_SECONDS = 120.0


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
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WORK_SECONDS)
