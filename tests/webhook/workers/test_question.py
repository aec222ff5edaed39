"""Questions for a domain, between processes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.rackgangs import fitting, gang, job, question

from policies.topology.choice.choice import Choice, ChoiceKey
from webhook.workers import question as module
from webhook.workers.frame import LONGEST, FrameError, framed, receive
from webhook.workers.question import WAITING_OF_ONE, Asker, answering

SECONDS = 60.0


class _Counter:
    """Answers every question alike, and notes it."""

    def __init__(self, answer: tuple[Choice, ...] = (fitting(),)) -> None:
        self.asked: list[ChoiceKey] = []
        self._answer = answer

    def __call__(self, key: ChoiceKey) -> tuple[Choice, ...]:
        """The answer."""
        self.asked.append(key)
        return self._answer


async def test_a_question_and_its_answer(tmp_path: Path) -> None:
    """Both arrive as they were, from several who ask at once."""
    path, counter = tmp_path / "socket", _Counter()
    keys = [question(gang(pods=number), dry_run=number == 3) for number in range(5)]
    async with answering(path, counter):
        answers = await asyncio.gather(*(Asker(path).read(key, SECONDS) for key in keys))

    assert answers == [(fitting(),)] * 5
    assert sorted(counter.asked, key=lambda key: key.gangs[0].pods) == keys


async def test_nobody_answers(tmp_path: Path) -> None:
    """Before the supervisor listens and after its end, the answer is unknown at once, and says so."""
    path = tmp_path / "socket"
    before = await Asker(path).read(question(gang(), gang()), SECONDS)
    async with answering(path, _Counter()):
        pass
    after = await Asker(path).read(question(), SECONDS)

    told = "the supervisor, which keeps the inventory, could not be asked: "
    assert before == (Choice("unknown", f"{told}[Errno 2] No such file or directory"),) * 2
    assert after == (Choice("unknown", f"{told}[Errno 111] Connection refused"),)


async def test_a_supervisor_that_hangs(tmp_path: Path) -> None:
    """Whoever asks waits for half of the time that his review has, and no longer."""
    gone = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while not reader.at_eof():
                await reader.read(1024)
        writer.close()
        gone.set()

    path = tmp_path / "socket"
    server = await asyncio.start_unix_server(never, path)
    answer = await Asker(path).read(question(), 0.02)
    await gone.wait()
    server.close()

    assert answer == (Choice("unknown", "the supervisor, which keeps the inventory, did not answer within 0.01 s"),)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(b"", "the connection ended without an answer", id="nothing"),
        pytest.param(framed(b"\xc1"), "MessagePack data is malformed: invalid opcode '\\xc1' (byte 0)", id="no choice"),
        pytest.param(b"\xff" * 8, f"4294967295 bytes are announced, {LONGEST} are the most", id="too long"),
        pytest.param(b"\x00\x00\x00\x09half", "the connection ended without an answer", id="half an answer"),
    ],
)
async def test_an_answer_that_is_none(tmp_path: Path, sent: bytes, reason: str) -> None:
    """Whatever comes back, the review goes on without a domain."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.write(sent)
        writer.close()

    path = tmp_path / "socket"
    server = await asyncio.start_unix_server(reply, path)
    (answer,) = await Asker(path).read(question(), SECONDS)
    server.close()

    assert answer == Choice("unknown", f"the supervisor, which keeps the inventory, could not be asked: {reason}")


async def test_what_is_asked_may_be_nonsense(tmp_path: Path) -> None:
    """A connection that sends no question is closed and logged, and the next one is answered."""
    path, counter = tmp_path / "socket", _Counter()
    with capture_logs() as logs:
        async with answering(path, counter):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(framed(b"nonsense"))
            assert await reader.read() == b""
            writer.close()
            assert await Asker(path).read(question(), SECONDS) == (fitting(),)

    assert [log["event"] for log in logs] == ["question not answered"]


async def test_nobody_hears_a_late_answer(tmp_path: Path) -> None:
    """A question whose time is over is not answered, since an answer would promise room in vain."""
    path, counter = tmp_path / "socket", _Counter()
    async with answering(path, counter):
        reader, writer = await asyncio.open_unix_connection(path)
        late = module.Question(question(), time.monotonic())
        writer.write(framed(module._ENCODER.encode(late)))
        assert module._CHOICES.decode(await receive(reader)) == (Choice("unknown", module.BUSY),)
        writer.close()

    assert counter.asked == []


async def test_a_crowd_in_one_namespace(tmp_path: Path) -> None:
    """However many questions a namespace asks at once, another one's is answered next; those beyond a bound fail."""
    path, counter = tmp_path / "socket", _Counter()
    crowd = [question(gang(job(f"job-{number}", "crowd"))) for number in range(2 * WAITING_OF_ONE)]
    other = question(gang(job("train", "other")))
    async with answering(path, counter):
        *answers, last = await asyncio.gather(*(Asker(path).read(key, SECONDS) for key in (*crowd, other)))

    assert last == (fitting(),)
    assert counter.asked.index(other) <= 2
    assert {choices[0].reason for choices in answers} == {"", module.BUSY}


def test_a_body_that_is_too_long() -> None:
    """It is not sent, and the sizes are named."""
    with pytest.raises(FrameError, match=f"^{LONGEST + 1} bytes are too much, {LONGEST} are the most$"):
        framed(bytes(LONGEST + 1))
