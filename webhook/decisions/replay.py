"""What other policies would have made of recorded requests. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from policies.engine import engine
from policies.engine.comparison import ADMISSION, Change, Judgement, Outcome, compared, judgements, placed, strongest
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Phase
from policies.engine.ruleset import RuleSet
from webhook.decisions.record import EVENT, SHADOW, patch_size

Kept = Literal["shadow", "other"]
Effect = Outcome | Literal["patch"]
"""What becomes of a verdict; `patch` if a change to the object would be another one, by its size."""

MUTATION = "mutating-policies"
"""The rule that all mutating policies are."""


class RecordError(Exception):
    """A line that is no record. The text says why."""


class _Event(Struct):
    event: str = ""


class _Said(Struct):
    rule: str
    verdict: str
    refuses: bool = False
    message: str = ""


class _Patch(Struct):
    operations: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        return f"a patch of {self.operations} operations, {self.bytes} bytes"


class Recorded(Struct, rename="camel"):
    """A record. masked: how many values of its objects were masked. left_out: why it has no content, else empty."""

    path: str
    request: AdmissionRequest
    decisions: tuple[_Said, ...]
    time: datetime = field(name="timestamp")
    kubernetes: str = ""
    content: str = "none"
    masked: int = 0
    left_out: str = ""
    namespace_labels: dict[str, str] | None = None
    patch: _Patch = field(default_factory=_Patch)

    @property
    def phase(self) -> Phase:
        """The phase of the call."""
        return "mutate" if self.path.split("/")[1:2] == ["mutate"] else "validate"

    @property
    def group(self) -> str | None:
        """The group of rules that were asked; None for all."""
        return self.path.partition(f"/{self.phase}")[2].strip("/") or None

    @property
    def is_whole(self) -> bool:
        """Whether it holds all that policies read."""
        return self.content == "objects"

    @property
    def said(self) -> dict[str, Judgement]:
        """What each rule said."""
        return strongest((d.rule, Judgement(d.verdict, d.refuses, d.message)) for d in self.decisions)


_event = msgspec.json.Decoder(_Event)
_recorded = msgspec.json.Decoder(Recorded)


def read(line: bytes) -> Recorded | Kept:
    """The record in a line; `shadow` for one of policies in the shadow, `other` for another log line.

    Raises RecordError.
    """
    try:
        event = _event.decode(line).event
        if event == EVENT:
            return _recorded.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RecordError(str(error)) from None
    return "shadow" if event == SHADOW else "other"


class Replay:
    """Policies that judge recorded requests. names: theirs. ruleset: with their rules. facts: beside the records."""

    def __init__(self, names: Collection[str], ruleset: RuleSet, facts: StaticFacts) -> None:
        self._names = tuple(names)
        self._facts = facts

        @lru_cache(maxsize=256)  # one for each kind of request
        def rules(phase: Phase, group: str | None, known: frozenset[str]) -> RuleSet:
            groups = {} if group is None else dict.fromkeys(known, (group,))
            return placed(ruleset, self._names, groups, phase)

        self._rules = rules

    def judged(self, record: Recorded) -> list[tuple[Effect, Change]]:
        """What becomes of the verdict of each policy that was asked then, or would be asked now."""
        said, request = record.said, record.request
        rules = self._rules(record.phase, record.group, frozenset(said).intersection(self._names))
        evaluate = engine.mutate if record.phase == "mutate" else engine.validate
        answer = evaluate(request, rules, self._known(record), record.group)
        now = judgements(answer)
        effects: list[tuple[Effect, Change]] = [*compared(said, now, self._names)]
        size = _Patch(**patch_size(answer))
        if record.phase == "mutate" and record.group is not None and size != record.patch and _patches(said, now):
            change = Change(MUTATION, _patch(record.patch), _patch(size))
            effects = [effect for effect in effects if effect[1].policy != MUTATION] + [("patch", change)]
        return effects

    def _known(self, record: Recorded) -> StaticFacts:
        """The facts at the time of a record. What files say of a Namespace counts before what the record says."""
        namespaces: Mapping[str, Mapping[str, str]] = self._facts.namespaces
        if record.namespace_labels is not None:
            namespaces = {record.request.scope_namespace: record.namespace_labels, **namespaces}
        return replace(self._facts, as_of=record.time.date(), namespaces=namespaces)


def _patches(said: Mapping[str, Judgement], now: Mapping[str, Judgement]) -> bool:
    """Whether mutating policies changed the object then or now, and nobody refuses it."""
    verdicts = {which.get(MUTATION, ADMISSION).verdict for which in (said, now)}
    return "patch" in verdicts and verdicts <= {"patch", "admit"}


def _patch(size: _Patch) -> Judgement:
    return Judgement("patch", message=str(size)) if size.operations else ADMISSION
