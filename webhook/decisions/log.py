"""The log of decisions: records of the answers that are sampled, written by a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from zlib import crc32

import structlog

from policies.engine.comparison import Change, Judgement, Outcome
from policies.engine.engine import Answer, Unanimity
from policies.engine.interruption import FactUnavailable, Missing
from policies.kubernetes.name import matches_glob
from webhook.configuration.settings import DecisionsSettings, SampleSettings
from webhook.decisions import record
from webhook.http.decision import Answered
from webhook.logs import Seldom

# How many pairs of a rule and a verdict are remembered: as many as rules and their verdicts in a large cluster.
_MEMORY = 4096
_HASHES = 2**32


class Sampling:
    """Chooses by rule and verdict, and of those a share by the uid of the review: no chance is needed."""

    def __init__(self, samples: Sequence[SampleSettings]) -> None:
        self._samples = samples
        self._shares: dict[tuple[str, str], float] = {}
        self._unanimous: dict[Unanimity, float] = {}

    def takes(self, uid: str, answer: Answer) -> bool:
        """Whether an answer is recorded: the largest share of its decisions counts."""
        share = self._of(answer)
        return share > 0 and crc32(uid.encode(errors="replace")) < share * _HASHES

    def _of(self, answer: Answer) -> float:
        alike = answer.unanimity
        if alike is None:
            return max((self._share(d.rule, d.verdict) for d in answer.decisions), default=self._share("", "admit"))
        share = self._unanimous.get(alike)
        if share is None:
            share = max(self._share(decision.rule, "admit") for decision in alike)
            if len(self._unanimous) >= _MEMORY:
                self._unanimous.clear()
            self._unanimous[alike] = share
        return share

    def _share(self, rule: str, verdict: str) -> float:
        share = self._shares.get((rule, verdict))
        if share is None:
            share = next((s.share for s in self._samples if verdict in s.verdicts and matches_glob(rule, s.rules)), 0.0)
            if len(self._shares) >= _MEMORY:
                self._shares.clear()
            self._shares[rule, verdict] = share
        return share


class Output(Protocol):
    """A place for whole lines. It may block; a thread of its own writes."""

    def write(self, lines: bytes) -> None:
        """Write lines, all of them. Raises OSError; what was torn then is ended before the next ones."""

    def close(self) -> None:
        """Write no more."""


class Descriptor:
    """An open descriptor, which stays open."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._torn = False

    def write(self, lines: bytes) -> None:
        """Write lines, whatever time it takes. Raises OSError."""
        rest = memoryview(b"\n" + lines if self._torn else lines)
        while rest:
            written = os.write(self._descriptor, rest)
            self._torn = rest[written - 1] != ord("\n")
            rest = rest[written:]

    def close(self) -> None:
        """Do nothing."""


class RotatingFile:
    """A file with older ones beside it, the oldest with the highest number: `decisions.jsonl`, `decisions.jsonl.1`.

    longest: after how many bytes it is renamed. older: how many such files are kept. Its owner alone may read it.
    """

    def __init__(self, path: Path, longest: int, older: int) -> None:
        self._path = path
        self._longest = longest
        self._older = older
        self._open: _File | None = None

    def write(self, lines: bytes) -> None:
        """Write lines. Raises OSError; the next call opens the file again."""
        try:
            if self._open is not None and self._open.size + len(lines) > self._longest:
                self._rotate()
            if self._open is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._open = _File(self._path)
            self._open.write(lines)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _rotate(self) -> None:
        self.close()
        for number in range(self._older, 0, -1):
            newer = self._numbered(number - 1)
            if newer.exists():
                newer.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


class _File(Descriptor):
    """A file that is open, at its end. A line that was torn there, as by a full disk, is ended. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        super().__init__(self._number)
        self.size = os.fstat(self._number).st_size
        self._torn = self.size > 0 and os.pread(self._number, 1, self.size - 1) != b"\n"

    def write(self, lines: bytes) -> None:
        """Write lines. Raises OSError."""
        super().write(lines)
        self.size += len(lines)

    def close(self) -> None:
        """Close it."""
        with suppress(OSError):
            os.close(self._number)


# The bytes that wait for a slow disk: some hundred of the longest records.
BACKLOG = 8 * 1024 * 1024
# How long the end of the process waits for what is not written yet.
LAST_SECONDS = 2.0
# Lines are written in pieces of about this size, so that files are rotated in time.
_PIECE = 256 * 1024


class Writer:
    """Takes lines without waiting. What cannot be written is counted as lost, and told in the log once."""

    def __init__(self, output: Output, backlog: int = BACKLOG) -> None:
        self._output = output
        self._backlog = backlog
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._written = self._lost = 0
        self._ending = False
        self._changed = threading.Condition()
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Have a line written, or count it as lost if too much waits."""
        with self._changed:
            if self._size + len(line) > self._backlog or self._ending:
                self._lost += 1
                return
            self._lines.append(line)
            self._size += len(line)
            self._changed.notify()

    def lose(self) -> None:
        """Count a record that could not even be made."""
        with self._changed:
            self._lost += 1

    def take(self) -> tuple[int, int]:
        """How many lines were written and lost since this was last called."""
        with self._changed:
            counted, self._written, self._lost = (self._written, self._lost), 0, 0
        return counted

    def problems(self) -> list[str]:
        """Why nothing can be written now; nothing if it can."""
        return [self.problem] if self.problem else []

    def end(self, seconds: float = LAST_SECONDS) -> None:
        """Write what waits, for at most so many seconds, and no more."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while lines := self._next():
            try:
                self._output.write(b"".join(lines))
            except OSError as error:
                self._count(lost=len(lines))
                self._tell(f"records cannot be written: {error.strerror or error}")
            else:
                self._count(written=len(lines))
                self._tell("")
        self._output.close()

    def _next(self) -> list[bytes]:
        """The lines of the next piece; none at the end."""
        with self._changed:
            while not self._lines and not self._ending:
                self._changed.wait()
            lines, size = [], 0
            while self._lines and size < _PIECE:
                line = self._lines.popleft()
                lines.append(line)
                size += len(line)
            self._size -= size
            return lines

    def _count(self, *, written: int = 0, lost: int = 0) -> None:
        with self._changed:
            self._written += written
            self._lost += lost

    def _tell(self, problem: str) -> None:
        if problem and not self.problem:
            structlog.get_logger().error("decision log lost", reason=problem)
        elif self.problem and not problem:
            structlog.get_logger().info("decision log written again")
        self.problem = problem


_STDOUT = 1


class DecisionLog:
    """Records answers. release: returns the name of Kubernetes' release by whose rules policies are judged."""

    def __init__(self, settings: DecisionsSettings, writer: Writer, release: Callable[[], str]) -> None:
        self._settings = settings
        self._sampling = Sampling(settings.samples)
        self._writer = writer
        self._release = release
        self._seldom = Seldom(structlog.get_logger())

    def __call__(self, answered: Answered) -> None:
        """Record an answer after it was sent, if it is sampled."""
        if self._sampling.takes(answered.reviewed.request.uid, answered.reviewed.answer):
            # The handler sends the answer before it gives the loop to anybody else.
            asyncio.get_running_loop().call_soon(self._write, answered, datetime.now(UTC), {})

    def shadow(self, answered: Answered, changes: Iterable[tuple[Outcome, Change]]) -> None:
        """Record what policies in the shadow would have changed."""
        told = [
            {"policy": change.policy, "outcome": outcome, "then": _told(change.then), "now": _told(change.now)}
            for outcome, change in changes
        ]
        self._write(answered, datetime.now(UTC), {"event": record.SHADOW, "shadow": told})

    def _write(self, answered: Answered, time: datetime, more: dict[str, object]) -> None:
        try:
            asked = self._asked(answered, time)
            self._writer.write(record.line(asked, self._settings.content, self._settings.max_record_bytes, **more))
        except Exception as error:  # noqa: BLE001 - a defect in records must not concern reviews
            self._writer.lose()
            self._seldom.warning("decision not recorded", type(error), error=repr(error))

    def _asked(self, answered: Answered, time: datetime) -> record.Asked:
        _, request, answer, *_ = answered.reviewed
        labels = None
        if self._settings.content == "objects" and request.scope_namespace:
            with suppress(FactUnavailable, Missing):
                labels = answered.served.facts.namespace_labels(request.scope_namespace)
        return record.Asked(
            answered.body, answered.path, request, answer, time, answered.seconds, self._release(), labels
        )


def _told(judgement: Judgement) -> dict[str, object]:
    return {"verdict": judgement.verdict, "refuses": judgement.refuses, "message": judgement.message}


def output(settings: DecisionsSettings) -> Output:
    """Where records go."""
    if settings.log == "-":
        return Descriptor(os.dup(_STDOUT))
    return RotatingFile(Path(settings.log), settings.max_file_bytes, settings.max_files)
