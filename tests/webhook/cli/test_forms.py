"""Findings in each form: what CI systems and code hosts read; the rest is in commands/forms.yaml."""

import json
from pathlib import Path

import pytest
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
_CHECK = ("check", "--schema", "off", "a,b.yaml")
pytestmark = pytest.mark.usefixtures("no_packs")


@pytest.fixture(autouse=True)
def _files() -> None:
    """Objects, a policy and its suite, in the current directory."""
    texts = {"a,b.yaml": _OBJECTS, "policy.yaml": _POLICY}
    for name, text in {**texts, "suite.yaml": _SUITE, "web.yaml": _WEB}.items():
        Path(name).write_text(text, encoding="utf-8")


def test_gitlab_reads_a_code_quality_report() -> None:
    """Each finding has the fields that GitLab needs, and a fingerprint that a line more does not change."""
    (issue,) = json.loads(run(*_CHECK, "-o", "gitlab").stdout)
    Path("a,b.yaml").write_text(f"# a comment\n{_OBJECTS}", encoding="utf-8")
    (later,) = json.loads(run(*_CHECK, "-o", "gitlab").stdout)

    fingerprint = issue.pop("fingerprint")
    assert (len(fingerprint), later["fingerprint"], later["location"]["lines"]) == (64, fingerprint, {"begin": 8})
    assert issue == {
        "description": f"metadata.labels: {_MESSAGE}\n{_REMEDY}",
        "check_name": "labels",
        "severity": "major",
        "location": {"path": "a,b.yaml", "lines": {"begin": 7}},
    }


def test_sarif_is_one_log_with_rules_and_places() -> None:
    """The log has the version that hosts take, each rule once, and places as URIs."""
    log = json.loads(run(*_CHECK, "-o", "sarif").stdout)

    (run_,) = log["runs"]
    assert (log["version"], run_["tool"]["driver"]["name"]) == ("2.1.0", "cks-admission")
    assert run_["tool"]["driver"]["rules"] == [{"id": "labels", "shortDescription": {"text": "labels"}}]
    name = "ConfigMap default/notes"
    place = {"artifactLocation": {"uri": "a%2Cb.yaml"}, "region": {"startLine": 7, "startColumn": 5}}
    assert run_["results"] == [
        {
            "ruleId": "labels",
            "ruleIndex": 0,
            "level": "error",
            "message": {"text": f"metadata.labels: {_MESSAGE}\n{_REMEDY}"},
            "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": name}]}],
        }
    ]


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
    checked, linted = run(*_CHECK, "-o", form), run("lint", "policy.yaml", "-o", form)
    tested = run("test", "suite.yaml", "-o", form)

    assert checked.stdout.startswith(_FORMS[form])
    assert ("CKS102" in linted.stdout, "resume" in tested.stdout) == (True, True)
    assert (checked.exit_code, linted.exit_code, tested.exit_code) == (1, 1, 1)
