"""Rounds of random input: reviews for the server, `review` and `check`, and documents for the verbs that read them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from support.service.processes import Service
from support.service.wire import Reply, Wire, connected

from fuzzing.answers import ROOT, BrokenPromiseError, Documents, Offline, again, as_review, patched, request, same
from fuzzing.reviews import Review, as_bytes, reviews

REVIEWS = 100
DOCUMENTS = 8
ANSWER_SECONDS = 30.0
POLICIES = (ROOT / "policies" / "packs", ROOT / "policies" / "examples")
PATHS = ("mutate", "validate", "validate/labels", "mutate/pods", "validate/policies-ignore")
SETTLED = 5
"""Rounds after which the server has met whatever it remembers."""
GROWTH = 1.3
"""The server's memory at the end to that after the first rounds. Both vary with the largest review of late."""


class Rounds:
    """The server and the others that answer, for as long as the block lasts."""

    def __init__(self, directory: Path, seed: int, count: int = REVIEWS, documents: int = DOCUMENTS) -> None:
        self._count = count
        self._document_count = documents
        self._random = Random(seed)  # noqa: S311 - the same input again is the point
        self._service = Service(directory, policies={"directories": [str(path) for path in POLICIES]})
        self._offline = Offline(POLICIES)
        self._documents = Documents(directory)
        self._counts: Counter[str] = Counter()
        self._memory: list[int] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._service)
        self._wire = await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def run(self) -> None:
        """One round. Raises BrokenPromiseError."""
        items = list(reviews(self._random, self._count))
        for path in PATHS:
            await self._compared(items, path)
        for item in items:
            if item.created is not None:
                await self._checked(item.created)
        for _ in range(self._document_count):
            self._documents.read(self._random)
            self._counts["documents"] += 1
        self._memory.append(_resident(self._service.process.pid))

    def check_growth(self) -> None:
        """The server has not grown with the number of reviews. Raises BrokenPromiseError."""
        if len(self._memory) > 2 * SETTLED and self._memory[-1] > GROWTH * self._memory[SETTLED]:
            raise BrokenPromiseError(f"the server's memory stays as it is: KiB after each round {self._memory}")

    def summary(self) -> str:
        """What was asked, in a line."""
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self._counts.items()))
        return f"{len(self._memory)} rounds: {counts}; server {self._memory[0]} to {self._memory[-1]} KiB"

    async def _compared(self, items: list[Review], path: str) -> None:
        """All answers to a path are as `review` gives them, and patches apply, once and for all."""
        reviewed = self._offline.review([item.body for item in items], path)
        for item, expected in zip(items, reviewed, strict=True):
            reply = await self._call(item.body, path)
            same(item, path, reply.status, reply.body, expected)
            self._counts[f"answers {reply.status}"] += 1
            if path == "mutate" and reply.status == 200:
                await self._mutated(item, reply)

    async def _mutated(self, item: Review, reply: Reply) -> None:
        response = json.loads(reply.body)["response"]
        if "patch" not in response:
            return
        self._counts["patches"] += 1
        changed = patched(item, reply.body)
        if not isinstance(request(item.body)["object"].get("spec"), dict):
            return  # a policy may give it a spec, which other rules then change
        second = await self._call(again(item, changed), "mutate")
        if "patch" in json.loads(second.body)["response"]:
            raise BrokenPromiseError(f"a second mutation changes nothing: {second.body!r}: {item.body!r}")

    async def _checked(self, created: object) -> None:
        """`check` of a file says what the server says of the same object: mutated, then validated."""
        checked = self._offline.check(as_bytes(created))
        if checked is None:
            return
        self._counts["checks"] += 1
        item = Review(as_review(created), None)
        mutation = await self._call(item.body, "mutate")
        if mutation.status != 200:
            return
        changed = patched(item, mutation.body)
        validation = await self._call(again(item, changed), "validate")
        allowed = all(json.loads(reply.body)["response"]["allowed"] for reply in (mutation, validation))
        if (allowed, changed) != checked:
            raise BrokenPromiseError(f"server and `check` agree: {allowed}, {changed}; {checked}: {item.body!r}")

    async def _call(self, body: bytes, path: str) -> Reply:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await self._wire.call(body, f"/{path}")
        except (TimeoutError, OSError, EOFError) as error:
            raise BrokenPromiseError(f"{path}: every review is answered, not {error!r}: {body!r}") from error
        if reply.closes:
            self._wire = await self._connected()
        return reply

    async def _connected(self) -> Wire:
        port = await self._service.port()
        context = ssl.create_default_context(cafile=self._service.certs / "ca-bundle.crt")
        return await self._stack.enter_async_context(connected(port, context))


def _resident(pid: int) -> int:
    """The resident memory of a process, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
