"""What rules say to an object, as findings: one for each policy and path."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final

from msgspec.structs import replace

from policies.engine.engine import Answer, Decision
from policies.engine.rule import PatchOperation, PolicyException
from policies.engine.violation import Violation, shortened
from policies.objects.fieldpath import Location, lookup, render
from webhook.audit.finding import Finding, Subject, Verdict

_VALUE_LENGTH: Final = 160
# How kube-apiserver begins the sentence of a policy.
_NATIVE, _DENIED = "ValidatingAdmissionPolicy", " denied request: "
_GRAVEST: Final[tuple[Verdict, ...]] = ("deny", "error", "warn", "audit", "exempt", "mutate")


def of_answers(subject: Subject, answers: Iterable[Answer], spared: Collection[str] = ()) -> list[Finding]:
    """The findings of answers. spared: the rules that have nothing to say."""
    decisions = (decision for answer in answers if answer.unanimity is None for decision in answer.decisions)
    return together(f for decision in decisions if decision.rule not in spared for f in _of_decision(subject, decision))


def together(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each policy and path. It has the gravest verdict, and everything that is said."""
    merged: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = finding.policy, finding.path
        before = merged.get(key)
        merged[key] = finding if before is None else _merged(before, finding)
    return list(merged.values())


def of_changes(subject: Subject, policy: str, before: Any, operations: Sequence[PatchOperation]) -> Iterator[Finding]:
    """What a mutation would change, a finding for each path. before: the object that it got."""
    by_path: dict[str, list[str]] = {}
    for operation in operations:
        place, text = _change(before, operation)
        by_path.setdefault(render(place), []).append("would be changed" if subject.kind == "Secret" else text)
    for path, texts in by_path.items():
        yield Finding(subject, policy, "mutate", path, "; ".join(dict.fromkeys(texts)))


def _merged(one: Finding, other: Finding) -> Finding:
    first, second = sorted((one, other), key=lambda finding: _GRAVEST.index(finding.verdict))
    texts = {name: _joined(getattr(one, name), getattr(other, name)) for name in ("message", "remedy")}
    return replace(first, until=first.until or second.until, **texts)


def _joined(one: str, other: str) -> str:
    return one if other in one.split("\n") else "\n".join(filter(None, (one, other)))


def _of_decision(subject: Subject, decision: Decision) -> Iterator[Finding]:
    if decision.failure is not None:
        verdict: Verdict = "error" if decision.denies else "warn"
        text = f"it could not be evaluated: {decision.failure.error}"
        yield Finding(subject, decision.rule, verdict, "", text)
    elif decision.verdict == "excepted" and decision.exception is not None:
        yield from _excepted(subject, decision, decision.exception)
    elif decision.verdict in ("deny", "warn", "audit"):
        ended = f" {decision.exception.ending(decision.rule)}" if decision.exception is not None else ""
        for violation in decision.violations:
            text = _sentence(decision, violation) + ended
            yield Finding(subject, decision.rule, decision.verdict, violation.path, text, violation.remedy)
        if decision.more:
            yield Finding(subject, decision.rule, decision.verdict, "", f"{decision.more} more places{ended}")


def _sentence(decision: Decision, violation: Violation) -> str:
    """What is wrong, without the name of the policy, and without that of the binding, which decides nothing here."""
    text = violation.sentence.removeprefix(f"{decision.rule}: ")
    return text.partition(_DENIED)[2] if text.startswith(f"{_NATIVE} '{decision.rule}' ") and _DENIED in text else text


def _excepted(subject: Subject, decision: Decision, exception: PolicyException) -> Iterator[Finding]:
    """What passes by an exception; of a mutation, that it is not made."""
    until, grounds = _end(exception.until), f" (exception {exception.grounds})"
    for violation in decision.violations:
        text = _sentence(decision, violation) + grounds
        yield Finding(subject, decision.rule, "exempt", violation.path, text, violation.remedy, until)
    if not decision.violations:
        yield Finding(subject, decision.rule, "exempt", "", f"it changes nothing here{grounds}", until=until)


def _end(last: date) -> str:
    """The end of an exception's last day, in UTC."""
    return f"{last.isoformat()}T23:59:59Z"


def _change(before: Any, operation: PatchOperation) -> tuple[Location, str]:
    """The place that an operation changes, and how."""
    place = _location(operation["path"])
    if operation["op"] == "remove":
        return place, "would be removed"
    if operation["op"] in ("move", "copy"):
        return place, f"would be taken from {render(_location(operation['from']))}"
    new = _shown(operation.get("value"))
    if place and (place[-1] == "-" or isinstance(place[-1], int)) and operation["op"] == "add":
        return place[:-1], f"would get {new}"
    old = lookup(before, place)
    return place, f"would be {new}" if old is None else f"would be {new} instead of {_shown(old)}"


def _location(pointer: str) -> Location:
    """The steps of a JSON Pointer (RFC 6901). A number counts as an index."""
    steps = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    return tuple(int(step) if step.isdecimal() else step for step in steps)


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), _VALUE_LENGTH)
