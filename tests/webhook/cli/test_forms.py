"""Findings in each form: what CI systems and code hosts read."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from support.service.commands import run

from policies.labels import USE_OWN_PREFIX

_REMEDY = USE_OWN_PREFIX
_MESSAGE = 'Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed: a.coreweave.com/b="50%"'
_OBJECTS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: notes
  labels:
    own: label
    a.coreweave.com/b: 50%
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fine}
"""
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
"""
_SUITE = """\
name: paused
policies: [policy.yaml]
objects:
  web: {file: web.yaml}
cases:
  - {name: running, object: web, oldObject: web, expect: denied, messages: [resume the rollout before you change it]}
  - {name: resumed, object: web, oldObject: web, patch: {spec: {paused: false}}, expect: allowed}
"""
_WEB = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {paused: false}}\n"
pytestmark = pytest.mark.usefixtures("no_packs")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects, a file that is none, a policy and its suite, in the current directory."""
    monkeypatch.chdir(tmp_path)
    texts = {"a,b.yaml": _OBJECTS, "bad.yaml": "a: 1\na: 2\n", "policy.yaml": _POLICY}
    for name, text in {**texts, "suite.yaml": _SUITE, "web.yaml": _WEB}.items():
        Path(name).write_text(text, encoding="utf-8")


def test_github_shows_findings_at_their_lines() -> None:
    """Workflow commands hold file, line and column, with the characters escaped that end them."""
    result = run("check", "--schema", "off", "a,b.yaml", "bad.yaml", "-o", "github")

    assert result.stdout.splitlines() == [
        "::error file=a%2Cb.yaml,line=7,col=5,title=labels::metadata.labels: "
        + _MESSAGE.replace("%", "%25")
        + f"%0A{_REMEDY}",
        '::error file=bad.yaml,line=2,col=1,title=unreadable::duplicate field "a", first on line 1',
    ]
    assert (result.stderr, result.exit_code) == ("", 2)


def test_a_field_is_named_once() -> None:
    """A message that names the field stands alone; before others stands the field."""
    text = _WEB.replace("paused: false", "pausd: false, replicas: x")
    Path("web.yaml").write_text(text, encoding="utf-8")

    result = run("check", "web.yaml", "-o", "github")

    assert result.stdout.splitlines() == [
        '::error file=web.yaml,line=1,col=71,title=schema::unknown field "spec.pausd"%0Adid you mean paused?',
        "::error file=web.yaml,line=1,col=85,title=schema::spec.replicas: expected numeric (int or float), got string",
    ]


def test_gitlab_reads_a_code_quality_report() -> None:
    """Each finding has the fields that GitLab needs, and a fingerprint that a line more does not change."""
    first = json.loads(run("check", "--schema", "off", "a,b.yaml", "-o", "gitlab").stdout)
    Path("a,b.yaml").write_text(f"# a comment\n{_OBJECTS}", encoding="utf-8")
    second = json.loads(run("check", "--schema", "off", "a,b.yaml", "-o", "gitlab").stdout)

    (issue,) = first
    assert len(issue.pop("fingerprint")) == 64
    assert issue == {
        "description": f"metadata.labels: {_MESSAGE}\n{_REMEDY}",
        "check_name": "labels",
        "severity": "major",
        "location": {"path": "a,b.yaml", "lines": {"begin": 7}},
    }
    assert second[0]["location"]["lines"] == {"begin": 8}
    assert (
        json.loads(run("check", "--schema", "off", "a,b.yaml", "-o", "gitlab").stdout)[0]["fingerprint"]
        == second[0]["fingerprint"]
    )


def test_sarif_is_one_log_with_rules_and_places() -> None:
    """The log has the version that hosts take, each rule once, and places as URIs."""
    log = json.loads(run("check", "--schema", "off", "a,b.yaml", "-o", "sarif").stdout)

    (run_,) = log["runs"]
    assert (log["version"], run_["tool"]["driver"]["name"]) == ("2.1.0", "cks-admission")
    assert run_["tool"]["driver"]["rules"] == [{"id": "labels", "shortDescription": {"text": "labels"}}]
    place = {"artifactLocation": {"uri": "a%2Cb.yaml"}, "region": {"startLine": 7, "startColumn": 5}}
    assert run_["results"] == [
        {
            "ruleId": "labels",
            "ruleIndex": 0,
            "level": "error",
            "message": {"text": f"metadata.labels: {_MESSAGE}\n{_REMEDY}"},
            "locations": [
                {
                    "physicalLocation": place,
                    "logicalLocations": [{"fullyQualifiedName": "ConfigMap default/notes"}],
                }
            ],
        }
    ]


def test_junit_has_a_case_for_each_object() -> None:
    """What passes counts, what is refused is a failure, what cannot be read an error."""
    result = run("check", "--schema", "off", "a,b.yaml", "bad.yaml", "-o", "junit")

    message = _MESSAGE.replace('"', "&quot;")
    assert result.stdout == dedent(f"""\
        <?xml version='1.0' encoding='utf-8'?>
        <testsuites>
          <testsuite name="a,b.yaml" file="a,b.yaml" tests="2" failures="1" errors="0">
            <testcase classname="a,b.yaml" name="ConfigMap default/notes">
              <failure message="{message}" type="labels">a,b.yaml:7: metadata.labels: {_MESSAGE}
          {_REMEDY}</failure>
            </testcase>
            <testcase classname="a,b.yaml" name="ConfigMap default/fine" />
          </testsuite>
          <testsuite name="bad.yaml" file="bad.yaml" tests="1" failures="0" errors="1">
            <testcase classname="bad.yaml" name="bad.yaml">
              <error message="duplicate field &quot;a&quot;, first on line 1" type="unreadable">bad.yaml:2: \
duplicate field "a", first on line 1</error>
            </testcase>
          </testsuite>
        </testsuites>
        """)


_FORMS = {
    "text": "a,b.yaml:1",
    "json": "[\n",
    "yaml": "- where",
    "junit": "<?xml",
    "sarif": '{\n  "$schema"',
    "github": "::",
    "gitlab": "[",
}


@pytest.mark.parametrize("form", _FORMS)
def test_three_verbs_have_all_forms(form: str) -> None:
    """`check`, `lint` and `test` print the same forms, and end with the same codes whatever the form."""
    checked, linted = run("check", "--schema", "off", "a,b.yaml", "-o", form), run("lint", "policy.yaml", "-o", form)
    tested = run("test", "suite.yaml", "-o", form)

    assert checked.stdout.startswith(_FORMS[form])
    assert ("CKS102" in linted.stdout, "resume" in tested.stdout) == (True, True)
    assert (checked.exit_code, linted.exit_code, tested.exit_code) == (1, 1, 1)


def test_nothing_found_is_a_whole_document_too() -> None:
    """A run without findings prints what its readers can parse."""
    Path("fine.yaml").write_text(_OBJECTS.partition("---\n")[2], encoding="utf-8")
    forms = {form: run("check", "fine.yaml", "-o", form).stdout for form in ("json", "yaml", "gitlab", "github")}

    assert [item["name"] for item in json.loads(forms["json"])] == ["fine"]
    assert yaml.safe_load(forms["yaml"]) == json.loads(forms["json"])
    assert (json.loads(forms["gitlab"]), forms["github"]) == ([], "")


def test_warnings_fail_where_they_are_to() -> None:
    """--strict makes the exit code of warnings 1, and the failures of JUnit."""
    Path("warn.yaml").write_text("labels: {action: warn}\n", encoding="utf-8")
    arguments = ("check", "--schema", "off", "a,b.yaml", "--config", "warn.yaml")

    assert (run(*arguments).exit_code, run(*arguments, "--strict").exit_code) == (0, 1)
    assert '<failure message="' not in run(*arguments, "-o", "junit").stdout
    assert '<failure message="' in run(*arguments, "-o", "junit", "--strict").stdout


def test_quiet_is_only_what_is_found() -> None:
    """-q leaves out what is fine, and the summary."""
    lines = run("check", "--schema", "off", "a,b.yaml", "-q").stdout.splitlines()

    assert (len(lines), lines[0]) == (4, "a,b.yaml:1: ConfigMap default/notes: refused")
