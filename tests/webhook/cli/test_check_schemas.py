"""`cks-admission check` judges objects by the schemas of their kinds, and says where to look and what to write."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from support.brokenmanifests import definitions
from support.service.commands import run

pytestmark = pytest.mark.usefixtures("no_packs")

_WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replica: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, ok: true}}
    spec:
      contaners: [{name: main, image: web}]
"""
_TRAINING = """\
apiVersion: schemas.example.test/v1
kind: Training
metadata: {name: a}
spec: {image: abc, workers: 9}
"""
_BROKEN = """\
web.yaml:1: Deployment default/web: refused
  Error: web.yaml:5:3: unknown field "spec.replica" (did you mean replicas?)
  Error: web.yaml:8:35: spec.template.metadata.labels.ok: expected string, got boolean true (write it in quotes: "true")
  Error: web.yaml:10:7: unknown field "spec.template.spec.contaners" (did you mean containers?)
"""
_UNKNOWN = """\
training.yaml:1: Training default/a: admitted
  Warning: training.yaml:2:1: kind: the schema of Training in schemas.example.test/v1 is not known, \
so it was not judged \
(give its CustomResourceDefinition: among the files, with --crds, or from a cluster with --kubeconfig)
"""
_JUDGED = """\
training.yaml:1: Training default/a: refused
  Error: training.yaml:4:20: Invalid value: 9: spec.workers in body should be less than or equal to 8
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken Deployment, a custom resource, and a folder with its definition, in the current directory."""
    monkeypatch.chdir(tmp_path)
    Path("crds").mkdir()
    texts = {"web.yaml": _WEB, "training.yaml": _TRAINING, "crds/training.yaml": yaml.safe_dump_all(definitions())}
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "output", "code"),
    [
        pytest.param("web.yaml", _BROKEN, 1, id="all-at-once"),
        pytest.param("web.yaml --schema off", "web.yaml:1: Deployment default/web: admitted\n", 0, id="off"),
        pytest.param("training.yaml", _UNKNOWN, 0, id="an-unknown-kind-is-said"),
        pytest.param("training.yaml --strict", _UNKNOWN, 1, id="an-unknown-kind-fails-where-warnings-do"),
        pytest.param("training.yaml --crds crds", _JUDGED, 1, id="definitions-in-a-folder"),
        pytest.param("training.yaml --crds crds/training.yaml", _JUDGED, 1, id="definitions-in-a-file"),
        pytest.param(
            "training.yaml crds",
            _JUDGED + "crds/training.yaml:1: CustomResourceDefinition trainings.schemas.example.test: admitted\n"
            "2 objects: 1 refused\n",
            1,
            id="definitions-beside-the-objects",
        ),
    ],
)
def test_what_people_read(arguments: str, output: str, code: int) -> None:
    """Each flaw stands below the line of its object, at the place of its field, and refuses the object."""
    result = run("check", *arguments.split())

    assert (result.stdout, result.stderr, result.exit_code) == (output, "", code)


_FRAGILE = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: fragile}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: object.spec.priority > 3}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: fragile}
spec: {policyName: fragile, validationActions: [Deny]}
"""


@pytest.mark.parametrize(
    ("spec", "output"),
    [
        pytest.param(
            "containers: [{name: a, image: a}]",
            "admitted\n  Warning: policy 'fragile' was skipped: expression 'object.spec.priority > 3' resulted in "
            "error: no such key: priority\n  Warning: Read on: https://d/service#skipped\n",
            id="sound",
        ),
        pytest.param("{}", "refused\n  Error: pod.yaml:4:1: spec.containers: Required value\n", id="broken"),
    ],
)
def test_a_policy_that_cannot_judge_a_broken_object_says_nothing(spec: str, output: str) -> None:
    """What is wrong with the object is why the policy failed, so that alone is said, and nothing to read about it."""
    Path("help.yaml").write_text("help: {url: 'https://d/{page}#{code}'}\n", encoding="utf-8")
    Path("policy.yaml").write_text(_FRAGILE, encoding="utf-8")
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {spec if spec == '{}' else f'{{{spec}}}'}\n"
    Path("pod.yaml").write_text(text, encoding="utf-8")

    result = run("check", "pod.yaml", "--policies", "policy.yaml", "--config", "help.yaml")

    shown = [line for line in result.stdout.splitlines(keepends=True) if "is_cpu_compute" not in line]
    assert "".join(shown).replace(", changed by 1 patch operation", "") == f"pod.yaml:1: Pod default/a: {output}"


def test_a_huge_value_is_cut() -> None:
    """Of a value that is not allowed, the beginning is shown."""
    value = "x" * 5000
    Path("own.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, labels: {{b: {value}}}}}\n", encoding="utf-8"
    )

    first, flaw, *rest = run("check", "own.yaml").stdout.splitlines()

    assert first == "own.yaml:1: ConfigMap default/a: refused"
    assert flaw.startswith('  Error: own.yaml:3:30: metadata.labels.b: Invalid value: "xxx')
    assert (flaw.count("x"), rest) == (1023, [])
    assert "x…: must be no more than 63 bytes" in flaw


def test_what_machines_read() -> None:
    """A flaw is a finding like any other: with its file, line, column, field, message and remedy."""
    (judged,) = json.loads(run("check", "web.yaml", "-o", "json").stdout)

    assert judged["findings"][0] == {
        "level": "error",
        "code": "schema",
        "rule": "schema",
        "file": "web.yaml",
        "line": 5,
        "column": 3,
        "path": "spec.replica",
        "message": 'unknown field "spec.replica"',
        "remedy": "did you mean replicas?",
        "object": "Deployment default/web",
    }


@pytest.mark.parametrize(
    ("spec", "output", "code"),
    [
        pytest.param("policies: [labels], reason: moves, until: '2999-12-31'", "admitted\n", 0, id="right"),
        pytest.param(
            "policies: [labels], until: '2999-12-31', macth: {}",
            "refused\n"
            '  Error: own.yaml:4:49: unknown field "spec.macth" (did you mean match?)\n'
            "  Error: own.yaml:4:1: spec.reason: Required value (say why, best with a ticket: whoever audits it reads"
            " this)\n",
            1,
            id="fields",
        ),
        pytest.param(
            "policies: [labels], reason: moves, until: '2020-12-31'",
            "admitted\n"
            "  Warning: own.yaml:4:43: spec.until: ended on 2020-12-31: it lets nothing pass"
            " (delete it, or write a later day)\n",
            0,
            id="ended",
        ),
    ],
)
def test_exceptions_are_judged_as_the_service_reads_them(spec: str, output: str, code: int) -> None:
    """The one kind of the service's own is known without a definition, in no Namespace, with its fields and dates."""
    head = "apiVersion: cks-admission.dev/v1\nkind: PolicyException\nmetadata: {name: a}\n"
    Path("own.yaml").write_text(f"{head}spec: {{{spec}}}\n", encoding="utf-8")

    result = run("check", "own.yaml")

    assert (result.stdout, result.exit_code) == (f"own.yaml:1: PolicyException a: {output}", code)


def test_definitions_that_are_none_are_an_error() -> None:
    """A path of --crds without definitions is said once, instead of a warning for each object."""
    result = run("check", "training.yaml", "--crds", "web.yaml")

    assert (result.stderr, result.exit_code) == ("Error: --crds web.yaml: no CustomResourceDefinition found\n", 2)


def test_releases_differ() -> None:
    """An autoscaler may go down to none where the release that is asked for lets it."""
    Path("scale.yaml").write_text(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {minReplicas: 0, "
        "maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}}\n",
        encoding="utf-8",
    )
    codes = [run("check", "scale.yaml", "--kubernetes", release).exit_code for release in ("1.36", "1.37")]

    assert codes == [1, 0]


def test_objects_of_suites_are_looked_at() -> None:
    """A suite whose object no API server could read is warned of, at the field: its cases prove nothing."""
    Path("suite.yaml").write_text(
        dedent("""\
            name: paused
            policies: [policy.yaml]
            objects:
              web:
                apiVersion: apps/v1
                kind: Deployment
                metadata: {name: web}
                spec: {pausd: true}
            cases:
            - {name: sent, object: web, expect: allowed}
            """),
        encoding="utf-8",
    )
    Path("policy.yaml").write_text(
        dedent("""\
            apiVersion: admissionregistration.k8s.io/v1
            kind: ValidatingAdmissionPolicy
            metadata: {name: paused}
            spec:
              matchConstraints:
                resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
              validations: [{expression: "!object.spec.?paused.orValue(false)", message: paused}]
            """),
        encoding="utf-8",
    )
    result = run("test", "suite.yaml")

    warning = 'suite.yaml:8:12: warning: unknown field "spec.pausd" (did you mean paused?)'
    assert (warning in result.stderr.splitlines(), result.exit_code) == (True, 0)
