"""Questions for a domain, which workers ask their supervisor on a Unix socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import structlog

from policies.topology.choice.choice import Choice, ChoiceKey
from webhook.heavy.turns import NoTurnError, Turns
from webhook.workers.frame import FrameError, framed, receive

SOCKET: Final = "inventory"
"""The name of the socket, beside those of the workers."""

LONGEST: Final = 1.0
"""Seconds. A choice takes some milliseconds, so whoever has not answered by then is in trouble."""

SHARE: Final = 0.5
"""Of a review's time. The rest is for its rules, which run again with the answer."""

AT_ONCE: Final = 1024
"""Connections that are heard; those beyond get no answer. Few of them wait for a turn at a time."""

WAITING: Final = 512
WAITING_OF_ONE: Final = 64
"""Questions that wait, of all namespaces and of one: as many as are answered in time."""

BUSY: Final = "too many workloads ask for domains at once, and others came first"

Answer = Callable[[ChoiceKey], tuple[Choice, ...]]


class Question(msgspec.Struct, frozen=True):
    """A question. until: the time of the machine's monotonic clock at which nobody waits any more."""

    key: ChoiceKey
    until: float


_ENCODER = msgspec.msgpack.Encoder()
_QUESTION = msgspec.msgpack.Decoder(Question)
_CHOICES = msgspec.msgpack.Decoder(tuple[Choice, ...])


class Asker:
    """Asks the process that listens at a path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, key: ChoiceKey, seconds: float) -> tuple[Choice, ...]:
        """The choices for a key, within the seconds that the review has left; unknown, with the reason, otherwise."""
        patience = min(LONGEST, seconds * SHARE)
        try:
            async with asyncio.timeout(patience):
                return await self._ask(Question(key, time.monotonic() + patience))
        except TimeoutError:
            return key.failure(f"the supervisor, which keeps the inventory, did not answer within {patience:.2g} s")
        except (FrameError, OSError, msgspec.MsgspecError) as error:
            return key.failure(f"the supervisor, which keeps the inventory, could not be asked: {error}")

    async def _ask(self, question: Question) -> tuple[Choice, ...]:
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            writer.write(framed(_ENCODER.encode(question)))
            return _CHOICES.decode(await receive(reader))
        finally:
            writer.transport.abort()


class _Desk:
    """Answers at a socket, each connection once.

    Namespaces take turns, so that the questions of one do not make those of others late: a late answer is none, and
    then nobody keeps the gang together but the scheduler, Pod by Pod.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._open = 0
        self._turns = Turns(WAITING, WAITING_OF_ONE)
        self._log = structlog.get_logger()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the question of a connection. Whoever sends none in time is not answered."""
        self._open += 1
        try:
            if self._open <= AT_ONCE:
                async with asyncio.timeout(LONGEST):
                    await self._reply(_QUESTION.decode(await receive(reader)), writer)
        except (FrameError, OSError, TimeoutError, msgspec.MsgspecError) as error:
            self._log.warning("question not answered", reason=str(error))
        finally:
            self._open -= 1
            writer.close()

    async def _reply(self, question: Question, writer: asyncio.StreamWriter) -> None:
        namespace = question.key.gangs[0].key.namespace
        deadline = asyncio.get_running_loop().time() + question.until - time.monotonic()
        try:
            async with self._turns.turn(namespace, deadline):
                await asyncio.sleep(0)  # whoever else has asked by now is in the queue then
                choices = self._heard(question)
        except NoTurnError:
            choices = question.key.failure(BUSY)
        writer.write(framed(_ENCODER.encode(choices)))
        await writer.drain()

    def _heard(self, question: Question) -> tuple[Choice, ...]:
        """The answer, if somebody still waits for it. Otherwise it would promise room in vain."""
        return self._answer(question.key) if time.monotonic() < question.until else question.key.failure(BUSY)


@asynccontextmanager
async def answering(path: Path, answer: Answer) -> AsyncIterator[None]:
    """Answer questions at a path, in a directory that nobody else may enter, during the block. Raises OSError."""
    server = await asyncio.start_unix_server(_Desk(answer).serve, path, backlog=AT_ONCE)
    try:
        yield
    finally:
        server.close()
