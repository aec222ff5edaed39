"""`cks-admission lint`: what it prints of policies in files, and how it ends."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.service.commands import run

from policies.lint.finding import CODES, Meaning

_SUNK = Path(__file__).parents[3] / "policies" / "packs" / "sunk"
_REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "lint.md"
_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: paused}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}]
  validations:
  - expression: object.spec.paused == false
    message: resume the rollout before you change it
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: paused}
spec: {policyName: paused, validationActions: [Deny]}
"""
_FINDING = {
    "level": "warning",
    "code": "CKS102",
    "rule": "missing-has",
    "object": "ValidatingAdmissionPolicy paused",
    "file": "p.yaml",
    "line": 8,
    "column": 17,
    "path": "spec.validations[0].expression",
    "message": "object.spec.paused may be absent; then the expression fails",
    "remedy": "test it first with has(object.spec.paused) && ..., or write object.spec.?paused.orValue(...)",
    "excerpt": "object.spec.paused == false\n^",
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy in a file of the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(_POLICY, encoding="utf-8")


def test_finding_is_shown_with_its_place_and_its_remedy() -> None:
    """A finding is a block with file, line and column, the expression with a caret, and what to do."""
    result = run("lint", "p.yaml")

    assert (result.stderr, result.exit_code) == ("", 1)
    assert result.stdout == (
        "p.yaml:8:17: warning: CKS102 missing-has: spec.validations[0].expression:"
        " object.spec.paused may be absent; then the expression fails\n"
        "object.spec.paused == false\n"
        "^\n"
        "hint: test it first with has(object.spec.paused) && ..., or write object.spec.?paused.orValue(...)\n"
        "1 finding in 1 policy\n"
    )


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)], ids=["json", "yaml"])
def test_findings_are_data_for_machines(form: str, read: Callable[[str], Any]) -> None:
    """JSON and YAML hold every finding with all its fields."""
    result = run("lint", "p.yaml", "-o", form)

    assert (read(result.stdout), result.exit_code) == ([_FINDING], 1)


@pytest.mark.parametrize(
    ("expression", "status", "code"),
    [
        (
            "object.spec.pausd == false",
            {
                "expressionWarnings": [
                    {
                        "fieldRef": "spec.validations[0].expression",
                        "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'pausd'\n"
                        " | object.spec.pausd == false\n | ...........^\n",
                    }
                ]
            },
            1,
        ),
        ("object.spec.paused == false", {}, 0),
    ],
    ids=["wrong", "right"],
)
def test_type_checking_is_that_of_the_status(expression: str, status: dict[str, Any], code: int) -> None:
    """With --type-checking the output is what a cluster would write into the status, and nothing else."""
    Path("p.yaml").write_text(_POLICY.replace("object.spec.paused == false", expression), encoding="utf-8")

    result = run("lint", "p.yaml", "--type-checking")

    assert (yaml.safe_load(result.stdout), result.exit_code) == ([{"name": "paused", "typeChecking": status}], code)


def test_clean_policies_are_exit_code_0() -> None:
    """Where nothing is found only the summary is printed."""
    result = run("lint", str(_SUNK))

    assert (result.stdout, result.stderr, result.exit_code) == ("nothing found in 2 policies\n", "", 0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kind: [", "Error: p.yaml:2:1: not valid YAML: "),
        (
            _POLICY.replace("object.spec.paused == false", "object.spec."),
            "Error: p.yaml:9:5: spec.validations[0].expression: Syntax error: ",
        ),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "Error: p.yaml: no ValidatingAdmissionPolicy or "),
    ],
    ids=["no YAML", "no expression", "no policy"],
)
def test_what_cannot_be_read_is_an_error(text: str, error: str) -> None:
    """Files that the API server would refuse are not reviewed; all that is wrong is told, with exit code 2."""
    Path("p.yaml").write_text(text, encoding="utf-8")

    result = run("lint", "p.yaml")

    assert (result.stdout, result.stderr[: len(error)], result.exit_code) == ("", error, 2)


def test_reference_lists_every_finding() -> None:
    """The page of the findings has a section for each code, with its name and its meaning first."""
    sections = re.findall(r"^## (\w+): (.*)\n\n(.*)\.$", _REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)

    assert [(code, Meaning(name, text)) for code, name, text in sections] == list(CODES.items())


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        ("", ["CKS102", "CKS107"]),
        ("--select missing-has", ["CKS102"]),
        ("--select CKS1 --ignore CKS102", ["CKS107"]),
        ("--ignore CKS102,no-remedy", []),
    ],
)
def test_findings_are_selected(arguments: str, codes: list[str]) -> None:
    """Codes, beginnings of codes and names select findings and leave them out; exit code 0 if none is left."""
    Path("p.yaml").write_text(_POLICY.replace("resume the rollout before you change it", "not so"), encoding="utf-8")

    result = run("lint", "p.yaml", "-o", "json", *arguments.split())

    assert ([f["code"] for f in json.loads(result.stdout)], result.exit_code) == (codes, 1 if codes else 0)


def test_an_unknown_code_is_refused() -> None:
    """A code that does not exist selects nothing, so it is an error, with the one that is meant."""
    result = run("lint", "p.yaml", "--select", "mising-has")

    assert (result.stdout, result.exit_code) == ("", 2)
    assert result.stderr == "Error: --select mising-has: there is no such code; did you mean missing-has?\n"


def test_doubts_about_exceptions_are_findings() -> None:
    """What reading an exception warns of, such as that it has ended, is found with its place."""
    Path("e.yaml").write_text(
        "apiVersion: cks-admission.dev/v1\nkind: PolicyException\nmetadata: {name: old}\n"
        'spec: {policies: [paused], reason: a ticket, until: "2020-01-31"}\n',
        encoding="utf-8",
    )

    result = run("lint", "p.yaml", "e.yaml", "-o", "json")

    (found,) = (each for each in json.loads(result.stdout) if each["file"] == "e.yaml")
    assert found == {
        "level": "warning",
        "code": "CKS111",
        "rule": "doubtful",
        "object": "",
        "file": "e.yaml",
        "line": 4,
        "column": 54,
        "path": "spec.until",
        "message": "ended on 2020-01-31: it lets nothing pass",
        "remedy": "delete it, or write a later day",
        "excerpt": "",
    }
