"""The decision log: records of the answers that are sampled, written by a thread of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
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
        if (alike := answer.unanimity) is None:
            shares = (self._share(decision.rule, decision.verdict) for decision in answer.decisions)
            share = max(shares, default=self._share("", "admit"))
        elif alike in self._unanimous:
            share = self._unanimous[alike]
        else:
            share = max(self._share(decision.rule, "admit") for decision in alike)
            if len(self._unanimous) >= _MEMORY:
                self._unanimous.clear()
            self._unanimous[alike] = share
        return share > 0 and crc32(uid.encode(errors="replace")) < share * _HASHES

    def _share(self, rule: str, verdict: str) -> float:
        share = self._shares.get((rule, verdict))
        if share is None:
            share = next((s.share for s in self._samples if verdict in s.verdicts and matches_glob(rule, s.rules)), 0.0)
            if len(self._shares) >= _MEMORY:
                self._shares.clear()
            self._shares[rule, verdict] = share
        return share


class Output:
    """A place for whole lines, which may block: an open descriptor, or a file with older ones beside it.

    path: of the file, which its owner alone may read; None for the descriptor. The oldest of older ones has the highest
    number: `decisions.jsonl`, `decisions.jsonl.1`. longest: after how many bytes it is renamed. older: how many such
    files are kept.
    """

    def __init__(self, path: Path | None, longest: int = 0, older: int = 0, descriptor: int = -1) -> None:
        self._path = path
        self._longest = longest
        self._older = older
        self._descriptor = descriptor
        self._size = 0
        self._torn = False

    def write(self, lines: bytes) -> None:
        """Write lines, all of them. Raises OSError; what was torn then is ended before the next ones."""
        try:
            if self._descriptor >= 0 and self._path is not None and self._size + len(lines) > self._longest:
                self.close()
                names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._older + 1))]
                for newer, renamed in reversed(list(pairwise(names))):
                    if newer.exists():
                        newer.replace(renamed)
            if self._descriptor < 0 and self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._size = os.fstat(self._descriptor).st_size
                # A line torn at its end, as by a full disk, is to be ended.
                self._torn = self._size > 0 and os.pread(self._descriptor, 1, self._size - 1) != b"\n"
            rest = memoryview(b"\n" + lines if self._torn else lines)
            while rest:
                written = os.write(self._descriptor, rest)
                self._size += written
                self._torn = rest[written - 1] != ord("\n")
                rest = rest[written:]
        except OSError:
            self.close()  # the next call opens the file again
            raise

    def close(self) -> None:
        """Close the file."""
        if self._path is not None and self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


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
        shadow = [
            {
                "policy": change.policy,
                "outcome": outcome,
                "then": _judgement(change.then),
                "now": _judgement(change.now),
            }
            for outcome, change in changes
        ]
        self._write(answered, datetime.now(UTC), {"event": record.SHADOW, "shadow": shadow})

    def _write(self, answered: Answered, time: datetime, more: dict[str, object]) -> None:
        try:
            _, request, answer, *_ = answered.reviewed
            labels = None
            if self._settings.content == "objects" and request.scope_namespace:
                with suppress(FactUnavailable, Missing):
                    labels = answered.served.facts.namespace_labels(request.scope_namespace)
            asked = record.Asked(
                answered.body, answered.path, request, answer, time, answered.seconds, self._release(), labels
            )
            self._writer.put(record.line(asked, self._settings.content, self._settings.max_record_bytes, **more))
        except Exception as error:  # noqa: BLE001 - a defect in records must not concern reviews
            self._writer.lose()
            self._seldom.warning("could not record a decision", type(error), error=repr(error))


def _judgement(judgement: Judgement) -> dict[str, object]:
    return {"verdict": judgement.verdict, "refuses": judgement.refuses, "message": judgement.message}


def output(settings: DecisionsSettings) -> Output:
    """Where records go."""
    if settings.log == "-":
        return Output(None, descriptor=os.dup(_STDOUT))
    return Output(Path(settings.log), settings.max_file_bytes, settings.max_files)
