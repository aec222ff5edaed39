"""Judges objects: what the rules make of each, and what is said of it as findings, for people and as data."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from msgspec.structs import replace

from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.builtin.plugins import Limits, Refusal, admitted
from policies.admissionpolicy.derivation import PODS, derive
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.rules.coverage import Coverage
from policies.admissionpolicy.schema import Schema
from policies.engine import engine, patch
from policies.engine.engine import Answer, Decision
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, GroupVersionKind, JsonObject, UserInfo, mapping
from policies.engine.rule import Rule
from policies.engine.ruleset import RuleSet
from policies.engine.violation import TEXT_LENGTH, Violation, warnings
from policies.kubernetes.release import Release
from policies.objects.fieldpath import render
from policies.objects.workload import Workload
from policies.schema.flaw import in_line
from policies.schema.schemas import Schemas
from webhook.cli import options
from webhook.cli.exits import InputError, bounded, reading
from webhook.cli.findings import Finding, Level, Result, unreadable
from webhook.cli.output import called, headline, style, to_yaml
from webhook.configuration.rules import BUILT_IN_RULES
from webhook.files import manifest, yamlfile
from webhook.files.manifest import Manifest
from webhook.files.yamlfile import FileError, Part
from webhook.sources.policyfiles import PolicyFiles, custom

Identity = tuple[str, str, str, str]

SCHEMA = "schema"
"""The code of findings by the schema of a kind."""
LIMIT = "limit"
"""The code of findings by a LimitRange or a ResourceQuota."""
_STEP = re.compile(r"\[(?P<bracket>[^\]]*)\]|(?P<key>[^.\[\]]+)")
_LEVELS: dict[str, Level] = {"deny": "error", "warn": "warning", "excepted": "note"}


class ObjectOutcome(NamedTuple):
    """What would happen to an object: the changes of the rules, and their verdict on the result.

    flaws: what is wrong with the object itself, whatever the rules say.
    """

    manifest: Manifest
    request: AdmissionRequest
    changed: JsonObject
    mutation: Answer
    validation: Answer
    flaws: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """What the object is called: kind, Namespace and name."""
        return called(self.request)

    @property
    def is_broken(self) -> bool:
        """Whether the API server would refuse the object, whatever the rules say."""
        return any(flaw.level == "error" for flaw in self.flaws)

    @property
    def allowed(self) -> bool:
        """Whether the object would be admitted."""
        return self.mutation.allowed and self.validation.allowed and not self.is_broken

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What each rule said."""
        return (*self.mutation.decisions, *self.validation.decisions)

    @property
    def message(self) -> str:
        """The refusal; empty where there is none."""
        flaws = [f"{flaw.file}:{flaw.line}:{flaw.column}: {flaw.text}" for flaw in self.flaws]
        return "\n".join([*flaws, *(answer.message for answer in (self.mutation, self.validation) if answer.message)])

    @property
    def warnings(self) -> list[str]:
        """What whoever applies the object is warned of."""
        return [*self.mutation.warnings, *self.validation.warnings]

    @property
    def headline(self) -> str:
        """The line about the object."""
        return headline(self.manifest.where, self.request, allowed=self.allowed)

    @property
    def head(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "where": self.manifest.where,
            "kind": self.request.kind.kind,
            "namespace": self.request.scope_namespace,
            "name": self.request.display_name,
            "allowed": self.allowed,
        }


def decide(
    written: Manifest, request: AdmissionRequest, ruleset: RuleSet, facts: StaticFacts, flaws: tuple[Finding, ...] = ()
) -> ObjectOutcome:
    """What happens to an object with some flaws: the rules change it, then judge the result.

    The API server asks nobody to judge what was refused already. Raises InputError if it takes too long.
    """
    is_broken = any(flaw.level == "error" for flaw in flaws)
    with bounded(written.where, "judge"):
        mutation = engine.mutate(request, ruleset, facts, room=TEXT_LENGTH, is_broken=is_broken)
        if not mutation.allowed:
            return ObjectOutcome(written, request, written.object, mutation, engine.ADMITTED, flaws)
        changed = patch.apply(written.object, mutation.operations) if mutation.operations else written.object
        final = replace(request, object=changed)
        validation = engine.validate(final, ruleset, facts, room=TEXT_LENGTH, is_broken=is_broken)
        return ObjectOutcome(written, request, changed, mutation, validation, flaws)


def read_objects(files: Sequence[str]) -> list[Manifest]:
    """The objects in files. Raises InputError, also where there are none."""
    with reading(FileError):
        manifests = list(manifest.read(files, options.stdin(files)))
    if not manifests:
        raise InputError(f"{', '.join(files)}: no objects found")
    return manifests


def in_namespace(facts: StaticFacts, namespace: str, labels: Mapping[str, str]) -> StaticFacts:
    """The facts for what is in a Namespace that has further labels."""
    return replace(facts, namespaces={namespace: {**facts.namespace_labels(namespace), **labels}})


def with_nodes(facts: StaticFacts, paths: Sequence[str]) -> StaticFacts:
    """The facts with the Nodes in files. Raises InputError."""
    if not paths:
        return facts
    from webhook.cli.topology import inventory  # noqa: PLC0415 - most runs have no Nodes

    objects = inventory.read_files(paths, options.stdin(paths))
    return replace(facts, cluster_nodes=tuple(objects.known), coming=objects.coming)


def schemas(
    own: Iterable[JsonObject], written: PolicyFiles | None, release: Release
) -> Callable[[GroupVersionKind], Schema]:
    """The schemas of a release, of CustomResourceDefinitions, and of those in policy files."""
    more = {**(written.custom if written else {}), **custom(mapping(value, "spec") for value in own)}
    return lambda kind: more.get(kind) or schema.known(kind, release)


def as_received(obj: JsonObject, schema: Callable[[GroupVersionKind], Schema]) -> JsonObject:
    """An object as policies of the API server see it when it is created."""
    return admitted(received(obj, schema(kind_of(obj))))


def identity(obj: JsonObject, namespace: str) -> Identity:
    """What makes an object the same one as another: group, kind, Namespace and name."""
    metadata = obj.get("metadata") or {}
    group = obj["apiVersion"].rpartition("/")[0]
    return group, obj["kind"], str(metadata.get("namespace") or namespace), str(metadata.get("name") or "")


def documents(part: Part | str) -> Iterator[Manifest | Result]:
    """The objects in a part of a file, and what is none. A text says why a file cannot be read."""
    if isinstance(part, str):
        yield unreadable(part)
        return
    try:
        read = yamlfile.load_part(part)
    except FileError as error:
        yield unreadable(str(error))
        return
    for document in read:
        for path, value in document.parts():
            try:
                yield manifest.of_value(document, path, value)
            except FileError as error:
                yield unreadable(str(error))


class Circumstances(NamedTuple):
    """What the fate of an object depends on, besides the object. before: the objects as they are now.

    labels: of the objects' Namespaces. schemas: by which objects are judged before any rule sees them; None for none.
    limits: of the objects' Namespaces. today: for exceptions that have ended, or soon will.
    """

    ruleset: RuleSet
    facts: StaticFacts
    schema: Callable[[GroupVersionKind], Schema]
    user: UserInfo
    namespace: str
    labels: Mapping[str, str]
    today: date
    before: Mapping[Identity, JsonObject] = {}
    schemas: Schemas | None = None
    limits: Limits = Limits()
    workloads: Mapping[tuple[str, str], Workload] = {}


@dataclass
class Judge:
    """Judges objects, and keeps none. coverage: of policies, if anybody asks which of them match nothing."""

    circumstances: Circumstances
    form: str
    diff: bool
    coverage: Coverage | None

    def results(self, part: Part | str) -> Iterator[Result]:
        """What is said of each object in a part of a file, and of what is none."""
        for item in documents(part):
            yield item if isinstance(item, Result) else self._result(item)

    def _result(self, written: Manifest) -> Result:
        about = self.circumstances
        given = written._replace(object=as_received(written.object, about.schema))
        earlier = about.before.get(identity(given.object, about.namespace))
        request = manifest.request(given.object, earlier, user=about.user, namespace=about.namespace)
        if request.operation == "CREATE" and request.resource == PODS:
            about.limits.fill(given.object, request.namespace)
        facts = in_namespace(about.facts, request.namespace, about.labels)
        found = () if about.schemas is None else flaws(written, about.schemas, about.today)
        broken = tuple(flaw._replace(object=called(request)) for flaw in found)
        outcome = decide(given, request, about.ruleset, facts, broken)
        known = {(flaw.path, flaw.message) for flaw in broken}
        limited = self._limits(written, replace(request, object=outcome.changed))
        more = (flaw._replace(object=outcome.name) for flaw in limited if (flaw.path, flaw.message) not in known)
        outcome = outcome._replace(flaws=(*broken, *more))
        if self.coverage is not None:
            self.coverage.add(request)
        return result(outcome, self.form, diff=self.diff, covered=self._covered(request))

    def _limits(self, written: Manifest, request: AdmissionRequest) -> Iterator[Finding]:
        """What the limits of the Namespace refuse: the object itself, or later the Pods of a workload."""
        limits = self.circumstances.limits
        refused = limits.refusals(request.object or {}, request.resource, request.scope_namespace)
        for refusal in refused if request.operation == "CREATE" else ():
            yield _limit(written, refusal, "error")
        for pod in derive(request, self.circumstances.workloads) if limits else ():
            limits.fill(pod.pod, request.namespace)
            for refusal in limits.refusals(pod.pod, PODS, request.namespace):
                later = Refusal(pod.place(refusal.path), f"its Pods will not come: {refusal.message}", refusal.remedy)
                yield _limit(written, later, "warning")

    def _covered(self, request: AdmissionRequest) -> bool:
        """Whether a policy is about the kind of a request, if there are policies at all."""
        ruleset = self.circumstances.ruleset
        rules = (*ruleset.select("mutate", request), *ruleset.select("validate", request))
        return not _has_policy(ruleset.rules) or _has_policy(rules)


def _has_policy(rules: Iterable[Rule]) -> bool:
    return any(rule.name not in BUILT_IN_RULES for rule in rules)


def flaws(written: Manifest, schemas: Schemas, today: date) -> Iterator[Finding]:
    """What is wrong with an object as it is written, at the lines of its fields.

    Of an exception, a kind of our own that no API server has, it is what the service itself would say.
    """
    group, kind = str(written.object["apiVersion"]).rpartition("/")[0], str(written.object["kind"])
    if reader.is_exception(group, kind):
        document = Document(value=written.object, name=written.file, places=written.places)
        for problem in reader.read([document], today).problems:
            place = problem.file, problem.line, problem.column
            yield Finding(problem.severity, SCHEMA, SCHEMA, *place, problem.path, problem.message, problem.hint)
        return
    for flaw in schemas.flaws(written.object):
        place = written.file, *written.places(flaw.path)
        yield Finding(flaw.level, SCHEMA, SCHEMA, *place, render(flaw.path), flaw.message, flaw.remedy)


def _limit(written: Manifest, refusal: Refusal, level: Level) -> Finding:
    place, path = written.places(refusal.path), render(refusal.path)
    return Finding(level, LIMIT, LIMIT, written.file, *place, path, refusal.message, refusal.remedy)


def steps(path: str) -> list[str | int]:
    """The keys and indexes of a path as Kubernetes writes it, such as `spec.containers[0].image`."""
    found = ((match["bracket"], match["key"]) for match in _STEP.finditer(path))
    return [int(bracket) if bracket and bracket.isdecimal() else bracket or key for bracket, key in found]


def _findings(outcome: ObjectOutcome) -> Iterator[Finding]:
    """A finding for each violation, and for each rule that failed."""
    file, name = outcome.manifest.file, outcome.name
    for decision in outcome.decisions:
        rule, level = decision.rule, _LEVELS.get(decision.verdict)
        if decision.failure is not None:
            level = "error" if decision.denies else "warning"
            message = str(decision.failure.error)
            yield Finding(level, rule, rule, file, *outcome.manifest.places(()), "", message, object=name)
        elif level is not None:
            grounds = "" if decision.exception is None else f" (exception {decision.exception.grounds})"
            for violation in decision.violations:
                place, message = _place(outcome, violation), f"{violation.sentence}{grounds}"
                yield Finding(level, rule, rule, file, *place, violation.path, message, violation.remedy, name)


def _place(outcome: ObjectOutcome, violation: Violation) -> tuple[int, int]:
    """The line and column of the field. Some rules name a map, and the key in it before an equals sign."""
    return outcome.manifest.places([*steps(violation.path), violation.value.partition("=")[0]])


def result(outcome: ObjectOutcome, form: str, *, diff: bool, covered: bool) -> Result:
    """What is said of an object. covered: whether a policy is about its kind. Only what the form needs is made."""
    findings = (*outcome.flaws, *_findings(outcome))
    states = {
        "refused": not outcome.allowed,
        "warned": any(finding.level == "warning" for finding in findings),
        "changed": outcome.allowed and bool(outcome.mutation.operations),
        "matched by no policy": not covered,
    }
    counts = tuple(name for name, holds in states.items() if holds)
    written = outcome.manifest
    line = int(written.where.rpartition(":")[2])
    lines = tuple(_text(outcome, diff=diff)) if form == "text" else ()
    data = _data(outcome, findings) if form in ("json", "yaml") else None
    return Result(written.file, outcome.name, written.file, line, findings, lines, data, counts)


def _text(outcome: ObjectOutcome, *, diff: bool) -> Iterator[str]:
    changes = len(outcome.mutation.operations)
    is_changed = outcome.allowed and changes
    changed = f", changed by {changes} patch operation{'s' * (changes > 1)}" if is_changed else ""
    yield outcome.headline + changed
    marks = {"error": style("Error:", fg="red")}
    warning = style("Warning:", fg="yellow")
    for flaw in outcome.flaws:
        text = in_line(flaw.path, flaw.message, flaw.remedy)
        yield f"  {marks.get(flaw.level, warning)} {flaw.file}:{flaw.line}:{flaw.column}: {text}"
    lines = _lines(outcome)
    for answer in (outcome.mutation, outcome.validation):
        for text in answer.warnings:
            yield f"  {warning} {text}{lines.get(text, '')}"
        for decision in answer.decisions:
            if decision.verdict == "excepted" and decision.exception is not None:
                skipped = style("skipped:", fg="yellow")
                yield f"  {skipped} {decision.rule} by exception {decision.exception.grounds}"
        yield from (f"  {line}{lines.get(line.strip(), '')}" for line in answer.message.splitlines())
    if diff and changes:
        before, after = to_yaml(outcome.manifest.object).splitlines(), to_yaml(outcome.changed).splitlines()
        colours = {"+": "green", "-": "red"}
        for line in difflib.unified_diff(before, after, "as received", "as admitted", lineterm=""):
            yield "  " + style(line, fg=colours.get(line[0]))


def _lines(outcome: ObjectOutcome) -> dict[str, str]:
    """The line of each violation that is not the object's own, by the texts in which answers show it."""
    lines: dict[str, str] = {}
    for decision in outcome.decisions:
        texts: Mapping[str, Violation] = {}
        if decision.verdict == "warn":
            texts = warnings(decision.violations, TEXT_LENGTH)
        elif decision.verdict == "deny":
            texts = {violation.line.strip(): violation for violation in decision.violations}
        for text, violation in texts.items():
            line, _ = _place(outcome, violation)
            if line != outcome.manifest.places(())[0]:
                lines[text] = f" (line {line})"
    return lines


def _data(outcome: ObjectOutcome, findings: Iterable[Finding]) -> dict[str, Any]:
    return {
        **outcome.head,
        "message": outcome.message,
        "warnings": outcome.warnings,
        "findings": [finding._asdict() for finding in findings],
        "decisions": list(map(_decision, outcome.decisions)),
        "patch": list(outcome.mutation.operations),
    }


def _decision(decision: Decision) -> dict[str, Any]:
    """A decision as data. `exception`, if any: the one that applies, or would have applied until it ended."""
    data: dict[str, Any] = {"rule": decision.rule, "verdict": decision.verdict}
    if (applied := decision.exception) is not None:
        data["exception"] = {"name": applied.name, "until": str(applied.until), "reason": applied.reason}
    return data
