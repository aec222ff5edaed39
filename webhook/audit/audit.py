"""Judges objects that exist as if somebody created them today: requests in, findings out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from policies import labels
from policies.engine import engine, patch
from policies.engine.engine import Answer, Decision
from policies.engine.facts import Facts
from policies.engine.interruption import FactUnavailable, Key, Missing, PostponedError
from policies.engine.request import AdmissionRequest, is_being_deleted, is_owned, mapping
from policies.engine.rule import PatchOperation
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, is_control_plane
from policies.engine.violation import BLANKS, Violation, printable, shortened
from policies.objects.fieldpath import Location, lookup, render
from webhook.audit.finding import Finding, Judged, Owners, Subject, Verdict, subject
from webhook.audit.rules import Rules
from webhook.limits import limited

_NODE: Final = ("", "Node")
_NOTHING: Final[frozenset[str]] = frozenset()
_LABELS: Final = frozenset({labels.RULE})


def spared(request: AdmissionRequest, facts: Facts) -> frozenset[str]:
    """The rules that have nothing to say about an object, whatever they find.

    That is the rule of labels for Nodes, for what a controller owns, and for Namespaces of the control plane with what
    is in them. Raises Missing and FactUnavailable.
    """
    if request.kind.group_kind == _NODE or is_owned(request.object):
        return _LABELS
    if request.kind.group_kind == labels.NAMESPACE:
        own = mapping(mapping(request.object, "metadata"), "labels")
        return _LABELS if own.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE else _NOTHING
    if request.scope_namespace and is_control_plane(request.scope_namespace, facts):
        return _LABELS
    return _NOTHING


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
        merged[key] = finding
        if before is not None:
            first, second = sorted((before, finding), key=lambda finding: _GRAVEST.index(finding.verdict))
            texts: dict[str, str] = {}
            for name in ("message", "remedy"):
                one, other = getattr(before, name), getattr(finding, name)
                texts[name] = one if other in one.split("\n") else "\n".join(filter(None, (one, other)))
            merged[key] = replace(first, until=first.until or second.until, **texts)
    return list(merged.values())


def of_changes(subject: Subject, policy: str, before: Any, operations: Sequence[PatchOperation]) -> Iterator[Finding]:
    """What a mutation would change, a finding for each path. before: the object that it got."""
    by_path: dict[str, list[str]] = {}
    for operation in operations:
        place, text = _change(before, operation)
        by_path.setdefault(render(place), []).append("would be changed" if subject.kind == "Secret" else text)
    for path, texts in by_path.items():
        yield Finding(subject, policy, "mutate", path, "; ".join(dict.fromkeys(texts)))


def _of_decision(subject: Subject, decision: Decision) -> Iterator[Finding]:
    if decision.failure is not None:
        verdict: Verdict = "error" if decision.denies else "warn"
        text = printable(f"it could not be evaluated: {decision.failure.error}", BLANKS)
        yield Finding(subject, decision.rule, verdict, "", text)
    elif decision.verdict == "excepted" and decision.exception is not None:
        exception = decision.exception
        until, grounds = f"{exception.until.isoformat()}T23:59:59Z", f" (exception {exception.grounds})"
        for violation in decision.violations:
            text = _sentence(decision, violation) + grounds
            yield Finding(subject, decision.rule, "exempt", violation.path, text, violation.remedy, until)
        if not decision.violations:
            yield Finding(subject, decision.rule, "exempt", "", f"it changes nothing here{grounds}", until=until)
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


def _change(before: Any, operation: PatchOperation) -> tuple[Location, str]:
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


# For one look-up. Nobody waits for an audit, so it may take longer than in a review.
_SECONDS: Final = 30.0
# A policy that takes too long for an object so often is skipped from then on.
_TIMES: Final = 3
_NOBODY: Final[frozenset[str]] = frozenset()
LookUp = Callable[[Key[Any], float], Awaitable[Any]]
"""Returns the value of a key within some seconds. Raises FactUnavailable, and Missing if it does not exist."""


class Audit:
    """Judges one object after the other, and keeps none of them.

    rules: those that are judged. facts: beside the objects. look_up: finds those that are not in memory; None without a
    cluster. workloads: knows owners; None if nobody asks for them.
    """

    def __init__(
        self, rules: Rules, facts: Facts, look_up: LookUp | None = None, workloads: Owners | None = None
    ) -> None:
        self.rules = rules
        self._facts = facts
        self._look_up = look_up
        self._workloads = workloads
        self._slow = Counter[str]()
        self._skipped = facts.skipped

    async def judged(self, request: AdmissionRequest) -> Judged:
        """What is found about an object: nothing if it is being deleted."""
        about = subject(request)
        # Again with all facts that judging turns out to need, and without policies that take too long.
        findings: list[Finding] | None = None
        skipped, entered = self._skipped, self._facts.entries
        while findings is None:
            facts = replace(self._facts, entries=entered, skipped=skipped)
            try:
                with limited():
                    findings = self._findings(about, request, facts)
            except Missing as missing:
                entered = facts.entered(missing.key, await self._entry(missing.key)).entries
            except PostponedError as error:
                skipped |= {error.policy}
                self._slow[error.policy] += 1
                self._skipped |= {name for name, times in self._slow.items() if times >= _TIMES}
        if findings and self._workloads is not None:
            workload, scope = await self._workloads.topmost(request)
            about = replace(about, workload=workload, scope=scope)
            findings = [replace(finding, subject=about) for finding in findings]
        return Judged(about, tuple(findings))

    def _findings(self, about: Subject, request: AdmissionRequest, facts: Facts) -> list[Finding]:
        if is_being_deleted(request.object):
            return []
        ruleset = self.rules.ruleset
        mutation = engine.mutate(request, ruleset, facts)
        if not mutation.allowed:  # as in admission, nobody judges what was refused already
            return of_answers(about, (mutation,))
        changed, changes = request, list[Finding]()
        if mutation.operations:
            changed = replace(request, object=patch.apply(request.object or {}, mutation.operations))
            # What each mutation would change, one after the other.
            current = request
            for step in self.rules.mutations:
                operations = engine.mutate(current, step, facts).operations
                for rule in step.rules if operations else ():
                    changes += of_changes(about, rule.name, current.object, operations)
                    current = replace(current, object=patch.apply(current.object or {}, operations))
        validation = engine.validate(changed, ruleset, facts, together=not facts.skipped)
        for screener in ruleset.screeners:
            if screener.is_waiting:  # more objects of the kind will come
                screener.prepare()
        silent = _NOBODY if validation.unanimity is not None else spared(request, facts)
        return together((*of_answers(about, (mutation, validation), silent), *changes))

    async def _entry(self, key: Key[Any]) -> Any:
        if self._look_up is None:
            return key.without_cluster()
        try:
            return await self._look_up(key, _SECONDS)
        except FactUnavailable as error:
            return error
        except Missing:
            return key.failure("it was looked for")
