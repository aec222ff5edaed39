"""The verb `replay`: what it compares, what it tells, and what it makes of lines that are no records."""

import gzip
import json
from base64 import b64decode
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from support.builders import Json, pod
from support.policies.policydocuments import policy
from support.service.commands import run
from support.service.reviews import answer_of, body

from policies.engine.engine import Answer, Decision
from policies.engine.violation import Violation
from webhook.decisions import record
from webhook.decisions.record import Asked
from webhook.http.review import Decoder

_TIME = datetime(2026, 3, 1, tzinfo=UTC)
_SAID = "ValidatingAdmissionPolicy 'names' with binding 'names' denied request: No x."
_DENIED = Decision("names", "deny", (Violation("names", "metadata.name", "", "", _SAID, "", "deny"),))
_NAMES = policy("names", "!object.metadata.name.contains('y')", "No y.")


@pytest.fixture(autouse=True)
def _files() -> None:
    Path("new.yaml").write_text(_NAMES, encoding="utf-8")


def _line(*decisions: Decision, name: str = "web", path: str = "/validate/policies", **fields: str) -> bytes:
    """A whole record of the creation of a Pod."""
    sent = body(pod(metadata={"name": name}))
    labels = {"team": "a"}
    asked = Asked(sent, path, Decoder(()).decode(sent), Answer(decisions), _TIME, 0.1, "1.37", labels)
    return record.line(asked, "objects", 100_000, **fields)


def _summary(log: bytes, *arguments: str) -> tuple[int, Json, list[str]]:
    """The exit code, the summary and what was told on stderr."""
    result = run("replay", "-", "-o", "json", "--policies", "new.yaml", *arguments, stdin=log)
    return result.exit_code, json.loads(result.stdout.splitlines()[-1])["summary"], result.stderr.splitlines()


def test_changes_are_shown_with_both_sentences() -> None:
    """Each change says who wrote what and where it was recorded, then the sentence then and the one now."""
    first, second = _line(_DENIED, name="x"), _line(Decision("names", "admit"), name="y")
    Path("log.jsonl").write_bytes(first)
    with gzip.open("log.jsonl.1.gz", "wb") as older:
        older.write(second)

    result = run("replay", "log.jsonl", "log.jsonl.1.gz", "--policies", "new.yaml")

    assert result.stdout.splitlines() == [
        "log.jsonl:1: CREATE Pod default/x by alice: would be admitted by names",
        "    then: deny",
        f"          {_SAID}",
        "            metadata.name",
        "    now:  admit",
        "log.jsonl.1.gz:1: CREATE Pod default/y by alice: would be refused by names",
        "    then: admit",
        "    now:  deny",
        "          ValidatingAdmissionPolicy 'names' with binding 'names' denied request: No y.",
        """            metadata.name: object.metadata.name.contains('y') is true (object.metadata.name is "y")""",
        "POLICY  SAME  REFUSED  WARNED  ADMITTED  CHANGED",
        "names      0        1       0         1        0",
        "2 records replayed, 2 verdicts change",
    ]
    assert (result.exit_code, result.stderr) == (1, "")


def test_what_is_compared() -> None:
    """Other words are no change; policies that are not given, and built-in rules, are not compared."""
    others = Decision("other", "warn"), Decision("labels", "deny", (_DENIED.violations[0],))
    code, summary, told = _summary(_line(_DENIED, *others, name="y"))

    assert (code, summary["policies"], summary["notCompared"]) == (0, {"names": {"same": 1}}, {"other": 1})
    assert told == ["policies in the log that were not given, and not compared: other"]


def test_where_policies_are_asked() -> None:
    """A policy of the record is asked whatever its failurePolicy is now; another one where it belongs."""
    fail, ignore = partial(_line, path="/validate/policies"), partial(_line, path="/validate/policies-ignore")
    asked = fail(name="y") + ignore(name="y") + ignore(Decision("names", "admit"), name="y")
    elsewhere = _line(name="y", path="/validate/labels") + _line(name="y", path="/mutate/pods")

    assert _summary(asked + elsewhere)[1]["policies"] == {"names": {"refuse": 2}}
    assert _summary(_line(name="y", path="/validate"))[1]["policies"] == {"names": {"refuse": 1}}


def test_what_a_record_says_of_its_namespace() -> None:
    """The labels of the Namespace are those of the record, unless the files have the Namespace."""
    text = policy("names", "namespaceObject.metadata.labels.team == 'a'", "Team a alone.")
    Path("new.yaml").write_text(text, encoding="utf-8")
    code, *_ = _summary(_line(Decision("names", "admit")))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "b"}}}
    Path("namespace.json").write_text(json.dumps(namespace), encoding="utf-8")
    other, *_ = _summary(_line(Decision("names", "admit")), "--policies", "namespace.json")

    assert (code, other) == (0, 1)


def test_mutations() -> None:
    """Of mutating policies the size of the patch is compared."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    expression = "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"
    mutation = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "label"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    }
    Path("new.yaml").write_text(json.dumps(mutation), encoding="utf-8")
    patched = json.loads(_line(Decision("mutating-policies", "patch"), path="/mutate/policies"))
    sent = body(pod(metadata={"name": "web"}))
    answered = run("review", "-", "--path", "mutate/policies", "--policies", "new.yaml", stdin=sent).stdout
    patch = b64decode(answer_of(answered)["patch"])
    size = {"operations": len(json.loads(patch)), "bytes": len(patch)}
    lines = [{**patched, "patch": size}, {**patched, "patch": {**size, "bytes": len(patch) + 3}}]

    code, summary, _ = _summary(b"\n".join(json.dumps(line).encode() for line in lines))

    assert (code, summary["policies"]) == (1, {"mutating-policies": {"same": 1, "patch": 1}})


def test_lines_that_are_no_records() -> None:
    """Other log lines, torn ones, records without content and those of the shadow are counted, and lose nothing."""
    whole = _line(Decision("names", "admit"))
    bare = json.dumps({**json.loads(whole), "content": "none"}).encode() + b"\n"
    lines = [whole, b'{"event":"review"}\n', whole[:50] + b"\n", b"\n", bare, _line(event=record.SHADOW), b"5\n", whole]
    code, summary, told = _summary(b"".join(lines))

    kinds = ("replayed", "withoutContent", "shadow", "other", "unreadable", "changes")
    assert (code, {kind: summary[kind] for kind in kinds}) == (0, dict(zip(kinds, (2, 1, 1, 1, 2, 0), strict=True)))
    assert [line.partition(": ")[0] for line in told[:2]] == ["standard input:3", "standard input:7"]
    why = "records need their objects: set decisions.content to objects, and admit in decisions.samples"
    assert told[2:] == [
        f"1 records without content were not replayed; {why}",
        "1 records of shadow policies were left out",
    ]
