"""Judges objects: what the rules make of each, and what is said of it as findings, for people and as data."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
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
from policies.engine.rule import Rule, RuleSet
from policies.engine.violation import TEXT_LENGTH, Violation, warnings
from policies.kubernetes.release import Release
from policies.objects.fieldpath import render
from policies.objects.workload import Workload
from policies.schema.flaw import in_line
from policies.schema.schemas import Schemas
from webhook.cli import options
from webhook.cli.findings import Finding, Level, Result, unreadable
from webhook.cli.output import InputError, bounded, called, coloured, headline, reading, style, to_yaml
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


class Source(NamedTuple):
    """Files, and what is in those that can be read only once: standard input, as `-`, and FIFOs."""

    files: tuple[str, ...]
    once: Mapping[str, bytes]

    @classmethod
    def of(cls, files: tuple[str, ...]) -> Source:
        """The source of files, where `-` is standard input."""
        once = {name: _content(name) for name in files if name != "-" and yamlfile.odd(name) == yamlfile.FIFO}
        return cls(files, {"-": options.stdin(files), **once})

    @property
    def size(self) -> int:
        """The bytes of all files that can be read."""
        sizes = (Path(file).stat().st_size for file in self.files if file != "-" and Path(file).is_file())
        return sum(map(len, self.once.values())) + sum(sizes)

    def parts(self) -> Iterator[Part | str]:
        """The parts of all files, and a line for each file that cannot be read."""
        for file in self.files:
            try:
                yield from yamlfile.parts(*self._content(file))
            except OSError as error:
                yield f"{file}: cannot be read: {error.strerror}"
            except FileError as error:
                yield str(error)

    def context(self, *kinds: str) -> Iterator[JsonObject]:
        """The objects of some kinds in the files. What cannot be read is left out: others say so."""
        for file in self.files:
            with suppress(OSError, FileError):
                name, content = self._content(file)
                for part in yamlfile.parts(name, content) if any(kind.encode() in content for kind in kinds) else ():
                    items = documents(part) if any(kind in part.text for kind in kinds) else ()
                    objects = (item.object for item in items if isinstance(item, Manifest))
                    yield from (obj for obj in objects if obj["kind"] in kinds and isinstance(obj.get("spec"), dict))

    def _content(self, file: str) -> tuple[str, bytes]:
        """The name of a file for people, and what is in it. Raises OSError."""
        content = self.once.get(file)
        return "stdin" if file == "-" else file, _content(file) if content is None else content


def _content(file: str) -> bytes:
    return yamlfile.content(file, most=yamlfile.OBJECTS, pipes=True)


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
    def allowed(self) -> bool:
        """Whether the object would be admitted."""
        is_broken = any(flaw.level == "error" for flaw in self.flaws)
        return self.mutation.allowed and self.validation.allowed and not is_broken

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What each rule said."""
        return (*self.mutation.decisions, *self.validation.decisions)

    @property
    def message(self) -> str:
        """The refusal; empty where there is none."""
        flaws = [f"{flaw.file}:{flaw.line}:{flaw.column}: {flaw.text}" for flaw in self.flaws]
        return "\n".join([*flaws, *filter(None, (self.mutation.message, self.validation.message))])

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
    metadata, group = obj.get("metadata") or {}, obj["apiVersion"].rpartition("/")[0]
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


@dataclass(kw_only=True)
class Judge:
    """Judges objects, and keeps none. What it says depends on this, besides the object.

    before: the objects as they are now. labels: of the objects' Namespaces. schemas: by which objects are judged before
    any rule sees them; None for none. limits: of the objects' Namespaces. today: for exceptions that have ended, or
    soon will. coverage: of policies, if anybody asks which of them match nothing.
    """

    ruleset: RuleSet
    facts: StaticFacts
    schema: Callable[[GroupVersionKind], Schema]
    user: UserInfo
    namespace: str
    labels: Mapping[str, str]
    today: date
    before: Mapping[Identity, JsonObject]
    schemas: Schemas | None
    limits: Limits
    workloads: Mapping[tuple[str, str], Workload]
    form: str
    diff: bool
    coverage: Coverage | None

    def results(self, part: Part | str) -> Iterator[Result]:
        """What is said of each object in a part of a file, and of what is none."""
        for item in documents(part):
            yield item if isinstance(item, Result) else self._result(item)

    def _result(self, written: Manifest) -> Result:
        """What is said of an object. Only what the form needs is made."""
        # What the API server makes of what is written, and what is wrong with that whatever the rules say.
        given = written._replace(object=as_received(written.object, self.schema))
        earlier = self.before.get(identity(given.object, self.namespace))
        request = manifest.request(given.object, earlier, user=self.user, namespace=self.namespace)
        is_new, name = request.operation == "CREATE", called(request)
        if is_new and request.resource == PODS:
            self.limits.fill(given.object, request.namespace)
        broken = [] if self.schemas is None else list(_flaws(written, name, self.schemas, self.today))
        facts = in_namespace(self.facts, request.namespace, self.labels)
        outcome = decide(given, request, self.ruleset, facts, tuple(broken))

        # What the limits of the Namespace refuse: the object itself, or later the Pods of a workload.
        final = replace(request, object=outcome.changed)
        refusals: list[tuple[Level, Refusal]] = []
        if is_new:
            own = self.limits.refusals(outcome.changed, request.resource, request.scope_namespace)
            refusals += (("error", refusal) for refusal in own)
        for pod in derive(final, self.workloads) if self.limits else ():
            self.limits.fill(pod.pod, request.namespace)
            for refusal in self.limits.refusals(pod.pod, PODS, request.namespace):
                later = Refusal(pod.place(refusal.path), f"its Pods will not come: {refusal.message}", refusal.remedy)
                refusals.append(("warning", later))
        known = {(flaw.path, flaw.message) for flaw in broken}
        for level, refusal in refusals:
            place, path = written.places(refusal.path), render(refusal.path)
            limit = Finding(level, LIMIT, LIMIT, written.file, *place, path, refusal.message, refusal.remedy, name)
            broken += [] if (path, refusal.message) in known else [limit]
        outcome = outcome._replace(flaws=tuple(broken))

        # Whether a policy is about the kind of the object, if there are policies at all.
        if self.coverage is not None:
            self.coverage.add(request)
        rules = (*self.ruleset.select("mutate", request), *self.ruleset.select("validate", request))
        is_covered = _have_policy(rules) or not _have_policy(self.ruleset.rules)

        findings = (*outcome.flaws, *_findings(outcome, name))
        states = {
            "refused": not outcome.allowed,
            "warned": any(finding.level == "warning" for finding in findings),
            "changed": outcome.allowed and bool(outcome.mutation.operations),
            "matched by no policy": not is_covered,
        }
        counts = tuple(name for name, holds in states.items() if holds)
        line = int(written.where.rpartition(":")[2])
        lines = tuple(_text(outcome, diff=self.diff)) if self.form == "text" else ()
        data = _data(outcome, findings) if self.form in ("json", "yaml") else None
        return Result(written.file, name, written.file, line, findings, lines, data, counts)


def _have_policy(rules: Iterable[Rule]) -> bool:
    return any(rule.name not in BUILT_IN_RULES for rule in rules)


def _flaws(written: Manifest, name: str, schemas: Schemas, today: date) -> Iterator[Finding]:
    """What is wrong with an object as it is written, at the lines of its fields.

    Of an exception, a kind of our own that no API server has, it is what the service itself would say.
    """
    group, kind = str(written.object["apiVersion"]).rpartition("/")[0], str(written.object["kind"])
    if reader.is_exception(group, kind):
        document = Document(value=written.object, name=written.file, places=written.places)
        for one in reader.read([document], today).problems:
            place = one.file, one.line, one.column, one.path
            yield Finding(one.severity, SCHEMA, SCHEMA, *place, one.message, one.hint, name)
        return
    for flaw in schemas.flaws(written.object):
        place = written.file, *written.places(flaw.path), render(flaw.path)
        yield Finding(flaw.level, SCHEMA, SCHEMA, *place, flaw.message, flaw.remedy, name)


def path_steps(path: str) -> list[str | int]:
    """The keys and indexes of a path as Kubernetes writes it, such as `spec.containers[0].image`."""
    matches = ((match["bracket"], match["key"]) for match in _STEP.finditer(path))
    return [int(bracket) if bracket and bracket.isdecimal() else bracket or key for bracket, key in matches]


def _findings(outcome: ObjectOutcome, name: str) -> Iterator[Finding]:
    """A finding for each violation, and for each rule that failed."""
    file = outcome.manifest.file
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
    return outcome.manifest.places([*path_steps(violation.path), violation.value.partition("=")[0]])


def _text(outcome: ObjectOutcome, *, diff: bool) -> Iterator[str]:
    changes = len(outcome.mutation.operations)
    is_changed = outcome.allowed and changes
    yield outcome.headline + (f", changed by {changes} patch operation{'s' * (changes > 1)}" if is_changed else "")
    warning = style("Warning:", fg="yellow")
    for flaw in outcome.flaws:
        mark = style("Error:", fg="red") if flaw.level == "error" else warning
        text = in_line(flaw.path, flaw.message, flaw.remedy)
        yield f"  {mark} {flaw.file}:{flaw.line}:{flaw.column}: {text}"

    # The line of each violation that is not the object's own, by the texts in which answers show it.
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

    for answer in (outcome.mutation, outcome.validation):
        yield from (f"  {warning} {text}{lines.get(text, '')}" for text in answer.warnings)
        for decision in answer.decisions:
            if decision.verdict == "excepted" and decision.exception is not None:
                yield f"  {style('skipped:', fg='yellow')} {decision.rule} by exception {decision.exception.grounds}"
        yield from (f"  {line}{lines.get(line.strip(), '')}" for line in answer.message.splitlines())
    if diff and changes:
        before, after = to_yaml(outcome.manifest.object).splitlines(), to_yaml(outcome.changed).splitlines()
        lines_of = difflib.unified_diff(before, after, "as received", "as admitted", lineterm="")
        yield from (f"  {line}" for line in coloured(lines_of))


def _data(outcome: ObjectOutcome, findings: Iterable[Finding]) -> dict[str, Any]:
    """The same as data. `exception` of a decision: the one that applies, or would have applied until it ended."""
    decisions = []
    for decision in outcome.decisions:
        entry: dict[str, Any] = {"rule": decision.rule, "verdict": decision.verdict}
        if (applied := decision.exception) is not None:
            entry["exception"] = {"name": applied.name, "until": str(applied.until), "reason": applied.reason}
        decisions.append(entry)
    return {
        **outcome.head,
        "message": outcome.message,
        "warnings": outcome.warnings,
        "findings": [finding._asdict() for finding in findings],
        "decisions": decisions,
        "patch": list(outcome.mutation.operations),
    }
