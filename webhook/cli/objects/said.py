"""What is said of an object: findings at the lines of its fields, the lines that people read, and data."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import click

from policies.engine.engine import Decision
from policies.engine.violation import Violation, squeezed
from webhook.cli.findings.finding import Finding, Level, Result
from webhook.cli.objects import flaws
from webhook.cli.objects.outcome import ObjectOutcome
from webhook.cli.output import to_yaml

_STEP = re.compile(r"\[(?P<bracket>[^\]]*)\]|(?P<key>[^.\[\]]+)")
_SHOWN = ("deny", "warn")
_LEVELS: dict[str, Level] = {"deny": "error", "warn": "warning", "excepted": "note"}


def steps(path: str) -> list[str | int]:
    """The keys and indexes of a path as Kubernetes writes it, such as `spec.containers[0].image`."""
    found = ((match["bracket"], match["key"]) for match in _STEP.finditer(path))
    return [int(bracket) if bracket and bracket.isdecimal() else bracket or key for bracket, key in found]


def findings(outcome: ObjectOutcome) -> Iterator[Finding]:
    """A finding for each violation, and for each rule that failed."""
    for decision in (*outcome.mutation.decisions, *outcome.validation.decisions):
        level = _LEVELS.get(decision.verdict)
        if decision.failure is not None:
            level = "error" if decision.denies else "warning"
            place = outcome.manifest.places(())
            yield _finding(outcome, level, decision.rule, place, "", str(decision.failure.error))
        elif level is not None:
            for violation in decision.violations:
                yield _of_violation(outcome, level, decision, violation)


def _of_violation(outcome: ObjectOutcome, level: Level, decision: Decision, violation: Violation) -> Finding:
    message = violation.sentence
    if decision.exception is not None:
        message = f"{message} (exception {decision.exception.grounds})"
    place = _place(outcome, violation)
    return _finding(outcome, level, decision.rule, place, violation.path, message, violation.remedy)


def _place(outcome: ObjectOutcome, violation: Violation) -> tuple[int, int]:
    """The line and column of the field. Some rules name a map, and the key in it before an equals sign."""
    return outcome.manifest.places([*steps(violation.path), violation.value.partition("=")[0]])


def _finding(
    outcome: ObjectOutcome,
    level: Level,
    rule: str,
    place: tuple[int, int],
    path: str,
    message: str,
    remedy: str = "",
) -> Finding:
    return Finding(level, rule, rule, outcome.manifest.file, *place, path, message, remedy, name(outcome))


def name(outcome: ObjectOutcome) -> str:
    """What an object is called: kind, Namespace and name."""
    request = outcome.request
    named = "/".join(part for part in (request.scope_namespace, request.display_name) if part)
    return f"{request.kind.kind} {named}"


def result(outcome: ObjectOutcome, form: str, *, diff: bool, covered: bool) -> Result:
    """What is said of an object. covered: whether a policy is about its kind. Only what the form needs is made."""
    these = (*outcome.flaws, *findings(outcome))
    counts = (
        *(() if outcome.allowed else ("refused",)),
        *(("warned",) if any(finding.level == "warning" for finding in these) else ()),
        *(("changed",) if outcome.mutation.operations else ()),
        *(() if covered else ("matched by no policy",)),
    )
    written = outcome.manifest
    line = int(written.where.rpartition(":")[2])
    lines = tuple(_text(outcome, diff=diff)) if form == "text" else ()
    data = _data(outcome, these) if form in ("json", "yaml") else None
    return Result(written.file, name(outcome), written.file, line, these, lines, data, counts)


def _text(outcome: ObjectOutcome, *, diff: bool) -> Iterator[str]:
    changes = len(outcome.mutation.operations)
    changed = f", changed by {changes} patch operation{'s' * (changes > 1)}" if changes else ""
    yield outcome.headline + changed
    for flaw in outcome.flaws:
        mark = click.style("Error:", fg="red") if flaw.level == "error" else click.style("Warning:", fg="yellow")
        yield f"  {mark} {flaws.line(flaw)}"
    lines = _lines(outcome)
    for answer in (outcome.mutation, outcome.validation):
        for warning in answer.warnings:
            yield f"  {click.style('Warning:', fg='yellow')} {warning}{lines.get(warning, '')}"
        for decision in answer.decisions:
            if decision.verdict == "excepted" and decision.exception is not None:
                skipped = click.style("skipped:", fg="yellow")
                yield f"  {skipped} {decision.rule} by exception {decision.exception.grounds}"
        if answer.message:
            yield from (f"  {line}{lines.get(line.strip(), '')}" for line in answer.message.splitlines())
    if diff and changes:
        yield from _diff(outcome)


def _lines(outcome: ObjectOutcome) -> dict[str, str]:
    """The line of each violation that is not the object's own, by the texts in which answers show it."""
    decisions = (*outcome.mutation.decisions, *outcome.validation.decisions)
    violations = [
        violation for decision in decisions if decision.verdict in _SHOWN for violation in decision.violations
    ]
    lines: dict[str, str] = {}
    for violation in violations:  # without one, nobody has to know the places
        line, _ = _place(outcome, violation)
        if line != outcome.manifest.places(())[0]:
            lines |= dict.fromkeys((violation.line.strip(), squeezed(violation.warning)), f" (line {line})")
    return lines


def _diff(outcome: ObjectOutcome) -> Iterator[str]:
    before, after = to_yaml(outcome.manifest.object).splitlines(), to_yaml(outcome.changed).splitlines()
    colours = {"+": "green", "-": "red"}
    for line in difflib.unified_diff(before, after, "as received", "as admitted", lineterm=""):
        yield "  " + click.style(line, fg=colours.get(line[0]))


def _data(outcome: ObjectOutcome, these: Iterable[Finding]) -> dict[str, Any]:
    decisions = (*outcome.mutation.decisions, *outcome.validation.decisions)
    return {
        **outcome.head,
        "message": outcome.message,
        "warnings": outcome.warnings,
        "findings": [finding._asdict() for finding in these],
        "decisions": list(map(_decision, decisions)),
        "patch": list(outcome.mutation.operations),
    }


def _decision(decision: Decision) -> dict[str, Any]:
    """A decision as data. `exception`, if any: the one that applies, or would have applied until it ended."""
    data: dict[str, Any] = {"rule": decision.rule, "verdict": decision.verdict}
    if (exception := decision.exception) is not None:
        data["exception"] = {"name": exception.name, "until": str(exception.until), "reason": exception.reason}
    return data
