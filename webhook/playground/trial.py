"""What the page shows of a policy and an object: the verbs of the command line, run on their texts.

A trial is answered by `check`, `eval`, `lint` and `topology`, so that the page says what they say. They do not print
the values of all expressions, which `_rows` evaluates as a review does.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import unified_diff
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
import yaml
from click.testing import CliRunner, Result
from msgspec import Struct
from msgspec.structs import replace

from policies import suite as suites
from policies.admissionpolicy.evaluation.compilation import Unit, compile_policy
from policies.admissionpolicy.evaluation.validator import parameters_of
from policies.admissionpolicy.rules.policyrule import BoundPolicy, Subject, in_force
from policies.admissionpolicy.rules.suiterun import SuiteRun
from policies.cel.cases import encode
from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.explain import Branch, tree
from policies.cel.syntax.source import CompileError
from policies.cel.values import type_of
from policies.engine import patch
from policies.engine.request import AdmissionRequest, JsonObject, UserInfo
from policies.kubernetes.release import NEWEST, RELEASES, named
from policies.objects.fieldpath import render
from policies.objects.workload import BUILT_IN, table
from webhook.cli import judging, options
from webhook.cli.main import main as command_line
from webhook.cli.output import reading, to_json, to_yaml
from webhook.cli.test import target
from webhook.files import manifest
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles

LARGEST = 3 * 2**20
"""The characters that a trial may have, as much as a write to the API server."""
_SHOWN = 2_000
_DOCUMENT = re.compile(r"^[^\S\n]*+(?:(?:apiVersion|kind)[^\S\n]*+:|\{)", re.MULTILINE)
_PLACED = re.compile(
    r"^(?:Error: |  )?(expression|policy|object|old|nodes)(?:\.yaml)?(?::(\d+))?(?::(\d+))?: (.*)", re.DOTALL
)


class Trial(Struct, frozen=True):
    """What stands on the page, and in a link to it. policy: YAML documents, or one CEL expression.

    object: what is written. old: the same object before; empty if it is created. groups and labels are separated by
    spaces; labels are those of the Namespace, as KEY=VALUE.
    """

    policy: str = ""
    object: str = ""
    old: str = ""
    nodes: str = ""
    user: str = "alice"
    groups: str = ""
    namespace: str = "default"
    labels: str = ""
    release: str = NEWEST.name

    @property
    def namespace_labels(self) -> dict[str, str]:
        """The labels of the Namespace. Raises InputError."""
        return options.labels(self.labels.split())

    @property
    def is_expression(self) -> bool:
        """Whether the policy is one bare expression."""
        return bool(self.policy.strip()) and not _DOCUMENT.search(self.policy)

    def link(self) -> str:
        """The trial as the fragment of a link."""
        return base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(self), 9)).decode().rstrip("=")


def from_link(fragment: str) -> Trial:
    """The trial of a link. Raises ValueError."""
    try:
        text = zlib.decompressobj().decompress(base64.urlsafe_b64decode(fragment + "=="), LARGEST)
        return msgspec.json.decode(text, type=Trial)
    except (binascii.Error, zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(f"the link holds no trial: {error}") from None


class Mark(Struct, frozen=True):
    """Something about a place in an editor: `policy`, `object`, `old` or `nodes`. Lines and columns are from 1."""

    editor: str
    line: int
    column: int
    level: str
    text: str


class Row(Struct, frozen=True):
    """An expression with what it came to. cost: as Kubernetes counts, with the variables that it reads first.

    tree: the parts of what is not true.
    """

    path: str
    text: str
    line: int
    value: str
    type: str
    cost: int
    tree: Branch | None = None


class Answer(Struct, frozen=True):
    """What the page shows. patch: the change of the first object, as JSON Patch.

    The rest is added by `details`. releases: of each other release, what is different there; empty for nothing.
    """

    verdict: Literal["admitted", "refused", "unreadable"] = "unreadable"
    lines: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    patch: tuple[JsonObject, ...] = ()
    rows: tuple[Row, ...] = ()
    diff: str = ""
    releases: Mapping[str, str] = {}


def answer(trial: Trial) -> Answer:
    """The verdict on a trial, which comes first: its words, and what is marked where."""
    with _files(trial):
        if trial.is_expression:
            return _of_expression(trial)
        checked = _checked(trial, trial.release)
    lines = tuple(_lines(checked))
    if checked.exit_code > 1:
        return Answer(lines=lines, marks=tuple(_marks("\n".join(lines))))
    objects: list[dict[str, Any]] = json.loads(checked.stdout)
    findings = (finding for obj in objects for finding in obj["findings"])
    return Answer(
        "admitted" if all(obj["allowed"] for obj in objects) else "refused",
        lines,
        tuple(Mark("object", one["line"], one["column"], one["level"], one["message"]) for one in findings),
        tuple(objects[0]["patch"]),
    )


def details(trial: Trial, given: Answer) -> Answer:
    """The answer with all that takes longer than the verdict: expressions, the change, `lint`, the other releases."""
    if given.verdict == "unreadable" or trial.is_expression:
        return given
    with _files(trial):
        # The change of the first object, and the expressions of the policies that match it as it is and as it will be.
        files = _policies(trial)
        known = judging.schemas((), files, files.release)
        (obj, *_), olds = (
            [judging.as_received(one.object, known) for one in manifest.read([name])]
            for name in ("object.yaml", "old.yaml")
        )
        changed = patch.apply(obj, given.patch) if given.patch else obj
        before, after = (to_yaml(value).splitlines() if given.patch else [] for value in (obj, changed))
        diff = "\n".join(unified_diff(before, after, "as received", "as admitted", lineterm=""))
        who = UserInfo(trial.user, groups=(*trial.groups.split(), "system:authenticated"))
        rows: list[Row] = []
        for kind, value in (("MutatingAdmissionPolicy", obj), ("ValidatingAdmissionPolicy", changed)):
            old = olds[0] if olds else None
            request = manifest.request(value, old, user=who, namespace=trial.namespace)
            rows += _rows(kind, request, files, trial)

        marks = list(given.marks)
        if trial.policy.strip():
            done = _run("lint", "policy.yaml", "-o", "json", "--kubernetes", trial.release)
            for finding in json.loads(done.stdout) if done.exit_code < 2 else ():
                hint = f"\nhint: {finding['remedy']}" if finding["remedy"] else ""
                words = f"{finding['code']} {finding['message']}{hint}"
                marks.append(Mark("policy", finding["line"], finding["column"], "lint", words))

        differences = {}
        for release in (release.name for release in RELEASES if release.name != trial.release):
            lines = tuple(_lines(_checked(trial, release)))
            differences[release] = "" if lines == given.lines else "\n".join(lines)
        return replace(given, marks=tuple(marks), rows=tuple(rows), diff=diff, releases=differences)


def placement(trial: Trial, kubeconfig: str = "") -> tuple[tuple[str, ...], str]:
    """Where the gangs of the object go, what waits in a cluster, and a picture (SVG) of the Nodes, if there are any.

    kubeconfig: of the cluster that has the Nodes; empty if they are written.
    """
    with _files(trial):
        where = ("--kubeconfig", kubeconfig) if kubeconfig else ("--nodes", "nodes.yaml")
        runs = [_run("topology", verb, "-f", "object.yaml", *where) for verb in ("explain", "place")]
        runs += [_run("topology", "queue", *where)] if kubeconfig else []
        picture = _run("topology", "tree", "-o", "svg", *(where if kubeconfig else ("-f", "nodes.yaml")))
        lines = [line for run in runs for line in (run.stderr if run.exit_code > 1 else run.stdout).splitlines()]
        return tuple(dict.fromkeys(lines)), picture.stdout if picture.exit_code == 0 else ""


def suite(trial: Trial) -> str:
    """The trial as a suite that `cks-admission test` passes, beside the policy as policy.yaml.

    Raises InputError if a text cannot be used.
    """
    with _files(trial), reading(FileError):
        (obj, *_), files = judging.read_objects(["object.yaml"]), _policies(trial)
        old = judging.read_objects(["old.yaml"]) if trial.old.strip() else []
    case: dict[str, Any] = {
        "name": "as on the page",
        "object": obj.object,
        **({"oldObject": old[0].object} if old else {}),
        "user": {"name": trial.user, "groups": trial.groups.split()},
        "namespace": {"name": trial.namespace, "labels": trial.namespace_labels},
    }
    cases = [{**case, "expect": "allowed"}]
    whole = {"name": "playground", "policies": ["policy.yaml"], "derived": True, "cases": cases}
    run = SuiteRun(
        files.loaded, files.parameters, target, schemas=files.schema, decisions=files.rights, release=files.release
    )
    outcome = run.outcome(run.received(suites.read(whole).cases[0]))
    texts = {key: list(getattr(outcome, key)) for key in ("messages", "warnings", "audit") if getattr(outcome, key)}
    patched = {} if outcome.patched is None else {"patched": outcome.patched}
    return to_yaml({**whole, "cases": [{**case, "expect": outcome.verdict, **texts, **patched}]})


@contextmanager
def _files(trial: Trial) -> Iterator[None]:
    """A folder with the texts of a trial, which is the current one during the block."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name in ("policy", "object", "old", "nodes"):
                Path(f"{name}.yaml").write_text(getattr(trial, name), encoding="utf-8")
            yield
        finally:
            os.chdir(before)


def _policies(trial: Trial) -> PolicyFiles:
    """The policies of a trial. Raises FileError."""
    today = datetime.now(UTC).date()
    return policyfiles.read([("policy.yaml", trial.policy)], today, drafts=True, release=named(trial.release))


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(command_line, arguments, catch_exceptions=False)


def _checked(trial: Trial, release: str) -> Result:
    groups = (part for group in trial.groups.split() for part in ("--as-group", group))
    labels = (part for label in trial.labels.split() for part in ("--namespace-labels", label))
    old = ("--old", "old.yaml") if trial.old.strip() else ()
    policy = ("--policies", "policy.yaml", "--kubernetes", release) if trial.policy.strip() else ()
    about = ("--as", trial.user, *groups, "-n", trial.namespace, *labels)
    return _run("check", "object.yaml", "-o", "json", *about, *old, *policy)


def _lines(checked: Result) -> Iterator[str]:
    """What a person at kubectl reads, or why a text cannot be read."""
    if checked.exit_code > 1:
        said = json.loads(checked.stdout or "[]")  # of each object, or the error that stderr has, too
        yield from (obj["error"] for obj in said if isinstance(said, list) and "error" in obj)
        yield from checked.stderr.splitlines()
        return
    for obj in json.loads(checked.stdout):
        yield f"{obj['kind']} {obj['namespace']}/{obj['name']}: {'admitted' if obj['allowed'] else 'refused'}"
        yield from obj["message"].splitlines()
        yield from (f"Warning: {warning}" for warning in obj["warnings"])
    # Of the policies, `lint` says it with a code; what names no file is about the run, as that nothing was matched.
    yield from (line for line in checked.stderr.splitlines() if not line.startswith((" ", "hint:", "policy.yaml:")))


def _marks(text: str) -> Iterator[Mark]:
    """The lines of a command that name a place in one of the files; further lines belong to the one before."""
    for line in re.split(r"\n(?! |hint: )|\n(?=  expression:)", text.strip()):
        if (place := _PLACED.match(line)) is not None:
            editor, number, column, words = place.groups()
            editor = editor.replace("expression", "policy")
            yield Mark(editor, int(number or 1), int(column or 1), "error", words)


def _of_expression(trial: Trial) -> Answer:
    """The answer of `eval`, in whose environment there are no parameters."""
    old = ("--old", "old.yaml") if trial.old.strip() else ()
    groups = (part for group in trial.groups.split() for part in ("--group", group))
    given = ("-f", "object.yaml") if trial.object.strip() else ()
    about = ("--user", trial.user, *groups, *old, "--kubernetes", trial.release)
    done = _run("eval", "-o", "json", "--why", *given, *about, "--", trial.policy.strip())
    if done.exit_code > 1:
        return Answer(lines=tuple(done.stderr.splitlines()), marks=tuple(_marks(done.stderr)))
    said = json.loads(done.stdout)
    value = to_json(said["value"], None) if "value" in said else f"failed: {said['error']}"
    row = Row("expression", trial.policy.strip(), 1, value, said.get("type", ""), said["cost"])
    return Answer("admitted" if done.exit_code == 0 else "refused", (value, *said.get("why", ())), rows=(row,))


def _rows(kind: str, request: AdmissionRequest, files: PolicyFiles, trial: Trial) -> Iterator[Row]:
    today = datetime.now(UTC).date()
    facts = judging.in_namespace(files.facts(today), request.namespace, trial.namespace_labels)
    subject = Subject(request, facts, table(BUILT_IN))
    pods = [(render(pod.place(())), one) for pod, several in subject.pods for one in several[:1]]
    compiled = partial(compile_policy, release=files.release)
    for bound in in_force(kind, files.loaded.policies, files.loaded.bindings, compiled):
        for about, one in [("", subject), *(pods if kind == "ValidatingAdmissionPolicy" else ())]:
            bindings = bound.matching(one)
            if bindings:
                yield from _of_subject(bound, bindings, one, about, files)
                break  # the first template stands for all


def _of_subject(bound: BoundPolicy, bindings: Any, subject: Subject, about: str, files: PolicyFiles) -> Iterator[Row]:
    compiled = bound.compiled
    parameters = subject.parameters(files.parameters)
    for params in parameters_of(compiled, bindings, parameters, subject.request.namespace)[:1]:
        names = subject.inputs.names(params, namespace=True)
        head = f"{bound.policy.name}: {about}: " if about else f"{bound.policy.name}: "
        programs = compiled.composition.programs
        variables = (Unit(one.expression, programs[one.name]) for one in compiled.policy.variables)
        own = ((unit, compiled.composition) for unit in (*compiled.conditions, *variables, *compiled.validations))
        messages = ((unit, compiled.speaking) for unit in compiled.messages if unit is not None)
        others = ((unit, compiled.composition) for unit in compiled.annotations)
        for unit, composition in (*own, *messages, *others, *((one, compiled.patching) for one in compiled.mutations)):
            expression, program = unit.expression, unit.program
            place = head + expression.path.removesuffix(".expression"), expression.text, expression.line
            if isinstance(program, CompileError):
                yield Row(*place, f"does not compile: {program}", "", 0)
                continue
            known = composition.bind(names)
            evaluation = program.evaluate(known)
            cost = evaluation.cost + known["variables"].cost
            value, kind = f"failed: {evaluation.error}", ""
            if evaluation.error is None:
                value, kind = to_json(encode(evaluation.value), None)[:_SHOWN], type_of(evaluation.value).name
            is_true = evaluation.error is None and evaluation.value is True
            parts = None if is_true else tree(program.source, composition, known, limit=EXPRESSION_LIMIT)
            yield Row(*place, value, kind, cost, parts)


_OWN = Path(__file__).with_name("gallery.yaml")
_PACKS = Path(suites.__file__).parent / "packs"


@cache
def gallery() -> tuple[tuple[str, Trial], ...]:
    """All examples with their names, the beginnings first."""
    own = yaml.safe_load(_OWN.read_text(encoding="utf-8"))
    examples = [(name, Trial(**texts)) for name, texts in own.items()]
    for file in sorted(_PACKS.rglob("suite.yaml")):
        suite = suites.read(yaml.safe_load(file.read_text(encoding="utf-8")))
        policy = "---\n".join((file.parent / name).read_text(encoding="utf-8") for name in suite.policies)
        for case in suite.cases:
            obj, old = ("" if one is None else to_yaml(one) for one in (case.object, case.old_object))
            user, namespace = case.user, case.namespace
            labels = " ".join(f"{key}={value}" for key, value in namespace.labels.items())
            about = Trial(policy, obj, old, "", user.name, " ".join(user.groups), namespace.name, labels)
            examples.append((f"{suite.name}: {case.name}", about))
    return tuple(examples)
