"""One decision as a JSON line: what was asked, what each rule says, and as much of the objects as is asked for. Pure.

A record without content names no value of an object: messages quote values, so they count as content.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from policies.engine import engine
from policies.engine.comparison import (
    ADMISSION,
    Change,
    Judgement,
    Outcome,
    compared,
    judged,
    judgements,
    placed,
    strongest,
)
from policies.engine.engine import Answer, Decision
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, JsonObject, mapping
from policies.engine.rule import Phase, RuleSet
from policies.engine.violation import FIELD_LENGTH, printable, shortened
from policies.objects.masking import MASK, Masking
from webhook.configuration.settings import Content
from webhook.version import VERSION

EVENT = "decision"
SHADOW = "shadow decision"
"""What tells records from log lines where both are on one stream, and those of shadow policies from others."""

# Masked texts of fewer characters are left in messages: "1" stands in many of them, and hides nothing.
_SHORTEST = 4
# Looking for each of more texts than this takes too long. The messages are masked as a whole then.
_MANY = 256
# The decisions and groups that a record has if it would be too long with all of them.
_FEW = 20
# How messages write what is between words, quotes and backslashes.
_PARTS = re.compile(r"[\"\\]|[^\"\\\s]+?|\s+", re.DOTALL)
_ESCAPED = {'"': r'\\?"', "\\": r"\\{1,2}"}
_BLANK = r"(?:\s|\\[bfnrt]|\\u[0-9a-f]{4})*"
_NEVER = r"(?!)"
_encode = msgspec.json.Encoder().encode


class Asked(Struct, frozen=True):
    """A review that was answered. body: as it came. labels: those of its Namespace, None if they are not known."""

    body: bytes
    path: str
    request: AdmissionRequest
    answer: Answer
    time: datetime
    seconds: float
    kubernetes: str
    labels: Mapping[str, str] | None = None


class _ContentError(Exception):
    """The content of a record has to be left out. The text says why."""


def line(asked: Asked, content: Content, longest: int, **more: Any) -> bytes:
    """The record of a review, with its newline, of at most so many bytes. more: further keys of it."""
    try:
        return _bounded(_record(asked, content, longest, more), longest)
    except _ContentError as reason:
        record = _record(asked, "none", longest, more) | {"leftOut": str(reason)}
    try:
        return _bounded(record, longest)
    except _ContentError as reason:
        decisions = [decision for decision in record["decisions"] if decision["verdict"] != "admit"]
        short = [{key: decision[key] for key in ("rule", "verdict")} for decision in decisions[:_FEW]]
        user = record["request"]["userInfo"]
        request = {**record["request"], "userInfo": {**user, "groups": user["groups"][:_FEW]}}
        return _encode({**record, "request": request, "decisions": short, "leftOut": str(reason)}) + b"\n"


def _bounded(record: JsonObject, longest: int) -> bytes:
    encoded = printable(_encode(record).decode()).encode()
    if len(encoded) < longest:
        return encoded + b"\n"
    raise _ContentError(f"the record has {len(encoded)} bytes; decisions.maxRecordBytes is {longest}")


def _record(asked: Asked, content: Content, longest: int, more: Mapping[str, Any]) -> JsonObject:
    answer, request, user = asked.answer, asked.request, asked.request.user_info
    prefix = mapping(request.object, "metadata").get("generateName")
    is_unnamed = isinstance(prefix, str) and not request.name
    # The request without its objects, in the form of an AdmissionRequest.
    described: JsonObject = {
        "request": {
            "uid": request.uid,
            "kind": request.kind,
            "resource": request.resource,
            "subResource": request.sub_resource,
            "name": shortened(request.name, FIELD_LENGTH),
            **({"generateName": shortened(str(prefix), FIELD_LENGTH)} if is_unnamed else {}),
            "namespace": shortened(request.namespace, FIELD_LENGTH),
            "operation": request.operation,
            "userInfo": {
                "username": shortened(user.username, FIELD_LENGTH),
                "groups": [shortened(group, FIELD_LENGTH) for group in user.groups],
            },
            "dryRun": bool(request.dry_run),
        }
    }
    hide: Callable[[str], str] | None = None
    if content != "none":
        whole, masking = _masked(asked, longest)
        hide = _Hiding(masking.hidden)
        described["masked"] = len(masking.hidden)
        if content == "objects":
            labels = {} if asked.labels is None else {"namespaceLabels": dict(asked.labels)}
            described = {"request": whole, "masked": len(masking.hidden), **labels}
    warnings = {} if hide is None else {"warnings": [hide(warning) for warning in answer.warnings]}
    return {
        "timestamp": asked.time.isoformat().replace("+00:00", "Z"),
        "event": EVENT,
        "version": VERSION,
        "kubernetes": asked.kubernetes,
        "path": asked.path,
        "allowed": answer.allowed,
        "seconds": round(asked.seconds, 6),
        "content": content,
        **described,
        "decisions": [_decision(decision, hide) for decision in answer.decisions],
        **warnings,
        "patch": patch_size(answer),
        **{key: _hidden(value, hide) for key, value in more.items()},
    }


def patch_size(answer: Answer) -> JsonObject:
    """How large the patch of an answer is."""
    operations = answer.operations
    return {"operations": len(operations), "bytes": len(_encode(operations)) if operations else 0}


def _masked(asked: Asked, longest: int) -> tuple[JsonObject, Masking]:
    if len(asked.body) > longest:
        raise _ContentError(f"the review has {len(asked.body)} bytes; decisions.maxRecordBytes is {longest}")
    masking = Masking()
    is_secret = asked.request.kind.group_kind == ("", "Secret")
    try:
        request = dict(mapping(msgspec.json.decode(asked.body), "request"))
        for key in ("object", "oldObject"):
            if isinstance(obj := request.get(key), dict):
                if isinstance(metadata := obj.get("metadata"), dict):
                    metadata.pop("managedFields", None)  # half of most objects, and read by hardly any policy
                request[key] = masking.masked(obj, is_secret=is_secret)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise _ContentError("the review is nested too deeply, or has texts that are no Unicode") from None
    return request, masking


def _decision(decision: Decision, hide: Callable[[str], str] | None) -> JsonObject:
    entry: JsonObject = {"rule": decision.rule, "verdict": decision.verdict}
    if decision.verdict == "admit":
        return entry
    judgement = judged(decision)
    if judgement.refuses:
        entry["refuses"] = True
    if paths := [path for path in dict.fromkeys(v.path for v in decision.violations) if path]:
        entry["paths"] = paths
    if hide is not None and judgement.message:
        entry["message"] = hide(judgement.message)
    if decision.verdict == "excepted" and decision.exception is not None:
        entry["exception"] = decision.exception.name
    return entry


def _hidden(value: Any, hide: Callable[[str], str] | None) -> Any:
    """A value whose messages are masked, or left out as content."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "message" or hide is not None}
        return {key: hide(item) if key == "message" and hide else _hidden(item, hide) for key, item in kept.items()}
    return [_hidden(item, hide) for item in value] if isinstance(value, list | tuple) else value


class _Hiding:
    """Masks, in messages, the texts that were masked in objects.

    How is found out when there is a message: most records have none.
    """

    def __init__(self, hidden: Iterable[str]) -> None:
        self._hidden = hidden

    def __call__(self, message: str) -> str:
        """The message with the mask in place of each text; the mask alone if there are too many texts to look for."""
        return MASK if self._pattern is None else self._pattern.sub(MASK, message)

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        texts = {shape.strip() for secret in self._hidden for shape in shapes(secret)}
        longest_first = sorted((text for text in texts if len(text) >= _SHORTEST), key=lambda text: (-len(text), text))
        if len(longest_first) > _MANY:
            return None
        # As messages write them: spaces or escapes for what cannot be printed.
        written = (
            "".join(
                _ESCAPED.get(part) or (_BLANK if (part.isspace() or not part.isprintable()) else re.escape(part))
                for part in _PARTS.findall(text)
            )
            for text in longest_first
        )
        return re.compile("|".join(written) or _NEVER)


def shapes(secret: str) -> Iterator[str]:
    """A secret as it is, and decoded as a Secret's data are."""
    yield secret
    with suppress(Base64Error, ValueError):
        yield b64decode(secret, validate=True).decode()


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
    """A record. masked: how many values of its objects were masked."""

    path: str
    request: AdmissionRequest
    decisions: tuple[_Said, ...]
    time: datetime = field(name="timestamp")
    kubernetes: str = ""
    content: str = "none"
    masked: int = 0
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
    def judgements(self) -> dict[str, Judgement]:
        """What each rule said."""
        return strongest((d.rule, Judgement(d.verdict, d.refuses, d.message)) for d in self.decisions)


_event = msgspec.json.Decoder(_Event)
_recorded = msgspec.json.Decoder(Recorded)


def read(line: bytes) -> Recorded | Kept:
    """The record in a line; `shadow` for one of shadow policies, `other` for another log line.

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
        said, request = record.judgements, record.request
        rules = self._rules(record.phase, record.group, frozenset(said).intersection(self._names))
        evaluate = engine.mutate if record.phase == "mutate" else engine.validate
        namespaces: Mapping[str, Mapping[str, str]] = self._facts.namespaces
        if record.namespace_labels is not None:
            namespaces = {record.request.scope_namespace: record.namespace_labels, **namespaces}
        answer = evaluate(
            request, rules, replace(self._facts, as_of=record.time.date(), namespaces=namespaces), record.group
        )
        now = judgements(answer)
        effects: list[tuple[Effect, Change]] = [*compared(said, now, self._names)]
        size = _Patch(**patch_size(answer))
        verdicts = {which.get(MUTATION, ADMISSION).verdict for which in (said, now)}
        is_mutation = record.phase == "mutate" and record.group is not None
        if is_mutation and size != record.patch and "patch" in verdicts and verdicts <= {"patch", "admit"}:
            change = Change(MUTATION, _patch(record.patch), _patch(size))
            effects = [effect for effect in effects if effect[1].policy != MUTATION] + [("patch", change)]
        return effects


def _patch(size: _Patch) -> Judgement:
    return Judgement("patch", message=str(size)) if size.operations else ADMISSION
