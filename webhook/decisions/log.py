"""The decision log: records of the answers that are sampled, written by a thread of its own."""

from __future__ import annotations

import asyncio
import os
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
from webhook.outbox import Outbox

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
# Lines are written in pieces of about this size, so that files are rotated in time.
_PIECE = 256 * 1024


def writer(output: Output) -> Outbox[bytes]:
    """Writes lines to a place, in a thread of its own."""

    def write(lines: list[bytes]) -> str:
        try:
            output.write(b"".join(lines))
        except OSError as error:
            return f"records cannot be written: {error.strerror or error}"
        return ""

    events = ("decision log lost", "decision log written again")
    return Outbox(write, len, BACKLOG, _PIECE, events, close=output.close)


_STDOUT = 1


class DecisionLog:
    """Records answers. release: returns the name of Kubernetes' release by whose rules policies are judged."""

    def __init__(self, settings: DecisionsSettings, writer: Outbox[bytes], release: Callable[[], str]) -> None:
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
        """Record what shadow policies would have changed."""
        told = [
            {"policy": change.policy, "outcome": outcome, "then": _told(change.then), "now": _told(change.now)}
            for outcome, change in changes
        ]
        self._write(answered, datetime.now(UTC), {"event": record.SHADOW, "shadow": told})

    def _write(self, answered: Answered, time: datetime, more: dict[str, object]) -> None:
        try:
            asked = self._asked(answered, time)
            self._writer.put(record.line(asked, self._settings.content, self._settings.max_record_bytes, **more))
        except Exception as error:  # noqa: BLE001 - a defect in records must not concern reviews
            self._writer.lose()
            self._seldom.warning("could not record a decision", type(error), error=repr(error))

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
