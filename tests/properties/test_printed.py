"""Whatever an object, a policy or the name of a file holds: what is printed is printable, and forges no line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import Json, pod
from support.service.commands import run
from support.service.reviews import body
from support.shown import ROOT

from policies.engine.engine import Answer, Decision, RuleFailure
from policies.engine.violation import BLANKS, FORBIDDEN, Status, Violation, bounded, prose, squeezed
from webhook.cli.output import harmless, to_json, to_yaml
from webhook.decisions import record
from webhook.decisions.record import Asked
from webhook.http.review import Decoder, encode

_PIECES: Final = (
    "\nforged.yaml:1: Pod default/a: admitted", "\n  forged", "\r\nforged", "\u2028forged", "\u0085forged",
    "\n::stop-commands::x", "::stop-commands::x", "##[stop-commands]x", "\n##vso[task.complete]", "\x1b[2K\x1b[1A",
    "\x9b31m", "\u202eabc\u2066", "\x07", "\x7f", "\x00", "\ud800", "\U000e0041", "\ufeff", "a: b", "größe 漢", "{}",
    "\\", '"',
)  # fmt: skip
_TEXTS: Final = st.lists(st.sampled_from(_PIECES) | st.text(st.characters(), max_size=3), min_size=1, max_size=4).map(
    "".join
)
# What is no object of Kubernetes, whatever stands there.
_ODD: Final = st.sampled_from([None, [], {}, [None], {"": ""}, -1, 1.5, True, 10**30, "", "8x"])
_NAMES: Final = _TEXTS.map(lambda text: re.sub("[/\0\ud800-\udfff]", "", text)[:40])
_KAI: Final = "kai.scheduler/topology"
_POD: Final = pod(
    {"nvidia.com/gpu": "1"},
    labels={"own.coreweave.cloud/x": "1"},
    metadata={
        "annotations": {_KAI: "coreweave", f"{_KAI}-required-placement": "rak", f"{_KAI}-prefered-placement": "r"}
    },
)
_POLICY: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p, annotations: {cks-admission.dev/derive: maybe}}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
    - expression: object.metadata.name == 'x' && size(object.spec.containers) > 0
      message: No.
      messageExpression: "'no ' + object.metadata.name + object.metadata.namespace"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Warn]}
---
apiVersion: cks-admission.dev/v1
kind: PolicyException
metadata: {name: e}
spec: {policies: [labels], until: "2200-01-01", reason: asked, match: {namespaces: [b]}}
"""
_FOREIGN: Final = yaml.safe_load((ROOT / "tests/policies/foreign.yaml").read_text(encoding="utf-8"))
_SENT: Final = body(_POD)
_ANSWER: Final = Answer((Decision("p", "admit"), Decision("gone", "warn")))
_ASKED: Final = Asked(_SENT, "/validate/policies", Decoder(()).decode(_SENT), _ANSWER, datetime.now(UTC), 0.1, "1.37")
_RECORD: Final = record.line(_ASKED, "objects", 100_000)
_FILES: Final[dict[str, list[Json]]] = {
    "objects.json": [
        _POD,
        *yaml.safe_load_all((ROOT / "docs/guides/topology/train.yaml").read_text(encoding="utf-8")),
        {"apiVersion": "example.org/v1", "kind": "Odd", "metadata": {"name": "odd"}},
    ],
    "nodes.json": [*yaml.safe_load_all((ROOT / "docs/guides/topology/nodes.yaml").read_text(encoding="utf-8"))],
    "policies.json": [*yaml.safe_load_all(_POLICY)],
    "suite.yaml": [{
        "name": "s", "policies": ["policies.json"], "objects": {"o": _POD},
        "cases": [{"name": "c", "object": "o", "expect": "deny", "message": "other"}],
    }],
    "foreign.json": _FOREIGN[0]["documents"],
    "record.json": [json.loads(_RECORD)],
}  # fmt: skip
_FORMS: Final = ("text", "json", "yaml", "junit", "sarif", "github", "gitlab")
_COMMANDS: Final = (
    *(f"check objects.json --policies policies.json --diff -o {form}" for form in _FORMS),
    *(f"audit objects.json --policies policies.json -o {form}" for form in _FORMS),
    *(f"lint policies.json -o {form}" for form in _FORMS),
    *(f"test suite.yaml -v -o {form}" for form in _FORMS),
    *(
        f"topology {verb} -f objects.json --nodes nodes.json -o {form}"
        for verb in ("explain", "place")
        for form in _FORMS[:3]
    ),
    *(f"topology {verb} --nodes nodes.json -o {form}" for verb in ("tree", "doctor") for form in _FORMS[:3]),
    "topology tree --nodes nodes.json -o svg",
    "replay record.json --policies policies.json",
    "replay record.json --policies policies.json -o json",
    "convert foreign.json",
    "export native policies.json",
    "fmt --diff policies.json",
    "eval object.items -f objects.json --explain",
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a value, and of all keys, which end in None."""
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from ((*path, key, None),) if isinstance(key, str) else ()
        yield from _places(item, (*path, key))


def _put(value: Any, path: tuple[Any, ...], put: Any) -> None:
    """Write a text after the one at a path, or anything else in its place."""
    *steps, last = path
    is_key = last is None
    if is_key:
        *steps, last = steps
    for step in steps:
        value = value[step]
    if is_key:
        value[f"{last}{put}"] = value.pop(last)
    elif isinstance(put, str) and isinstance(value[last], str):
        value[last] += put
    else:
        value[last] = put


def _faults(printed: str, form: str) -> list[str]:
    """What must not be in an output."""
    lines = printed.split("\n")
    own = re.compile(r"::(error|warning|notice) [^\n]*?::") if form == "github" else re.compile(r"(?!)")
    return [
        *(line for line in lines if line.lstrip().startswith("::") and not own.match(line)),
        *(line for line in lines if line.startswith("forged") or "##[" in line or "##vso[" in line),
        *{sign for sign in printed if not (sign.isprintable() or sign in BLANKS)},
    ]


@settings(max_examples=300)
@given(st.sampled_from(_COMMANDS), st.data())
def test_what_verbs_print(command: str, data: st.DataObject) -> None:
    """Hostile texts in any field of any input, and in the names of files, leave every output as it is to be read."""
    verb, *arguments = command.split()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for name in sorted({"policies.json", *arguments} & _FILES.keys()):
            shown = deepcopy(_FILES[name])
            for _ in range(data.draw(st.integers(1, 2))):
                _put(shown, data.draw(st.sampled_from(list(_places(shown)))), deepcopy(data.draw(_TEXTS | _ODD)))
            renamed = name if name == "policies.json" else f"{data.draw(_NAMES)}{name}"
            whole = {"apiVersion": "v1", "kind": "List", "items": shown}
            Path(renamed).write_text(json.dumps(whole if len(shown) > 1 else shown[0]), encoding="utf-8")
            arguments = [f"./{renamed}" if given == name else given for given in arguments]
        result = run(verb, *arguments)

        assert result.exit_code in (0, 1, 2), result.output
        form = arguments[-1]
        assert _faults(result.stdout, form) == []
        assert _faults(result.stderr, form) == []
        if form == "junit" and result.stdout:
            ET.fromstring(result.stdout)  # noqa: S314 - it is our own


@settings(max_examples=300)
@given(st.recursive(_TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3)))
def test_documents_keep_their_values(value: Any) -> None:
    """What programs read is the same value, and printable."""
    texts = to_json(value), to_yaml(value)
    assert (json.loads(texts[0]), yaml.safe_load(texts[1])) == (value, value)
    assert [fault for text in texts for fault in _faults(text, "")] == []


@settings(max_examples=300)
@given(_TEXTS)
def test_prose(text: str) -> None:
    """Lines after the first one are deeper than it; printed once more it is the same."""
    first, *more = prose(f"  a {text}").split("\n")

    assert first.startswith("  a")
    assert all(line.startswith("   ") for line in more if line)
    assert prose("\n".join([first, *more])) == "\n".join([first, *more])


def test_many_lines_are_printed_at_once() -> None:
    """Blank lines are not looked at again for each of them: that would take minutes."""
    assert harmless("\n" * 500_000) == "\n" * 500_000


@settings(max_examples=200)
@given(st.tuples(_TEXTS, _TEXTS, _TEXTS, _TEXTS, _TEXTS), _TEXTS, st.sampled_from([FORBIDDEN, Status("Invalid", 422)]))
def test_what_the_api_server_is_told(texts: tuple[str, str, str, str, str], error: str, status: Status) -> None:
    """Refusals, their causes and warnings are printable; the first may have the line breaks of who wrote the policy."""
    shown, _ = bounded([Violation("r", *texts, status=status)])
    failure = RuleFailure(ValueError(error), "Fail")
    answer = Answer((Decision("r", "deny", shown), Decision("s", "error", failure=failure)))
    said = json.loads(encode("u", answer))["response"]["status"]
    causes = said.get("details", {}).get("causes", ())
    lines = [shown[0].line, squeezed(shown[0].warning), *(cause.get("field", "") for cause in causes)]

    assert not any("\n" in line for line in lines)
    assert all(
        sign.isprintable() or sign in BLANKS
        for text in (said["message"], *lines, *(c["message"] for c in causes))
        for sign in text
    )
