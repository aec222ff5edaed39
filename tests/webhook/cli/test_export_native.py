"""`cks-admission export native`: policies as plain Kubernetes YAML, and what is not in it."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from support.service.commands import run

_POLICY = """\
    # Every Pod has a team.
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicy
    metadata:
      name: teams
      annotations:
        cks-admission.dev/derive: "DERIVE" # only here
        example.com/owner: us
    spec:
      paramKind: {apiVersion: v1, kind: ConfigMap}
      matchConstraints:
        resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
      validations:
        - expression: |-
            // a team of the list
            params.data.teams.split(',').exists(t,
              t == object.metadata.labels.team)
    """
_BINDING = """\
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicyBinding
    metadata: {name: teams, annotations: {cks-admission.dev/owner: me}}
    spec:
      policyName: teams
      paramRef: {name: teams, namespace: default, parameterNotFoundAction: Deny}
      validationActions: [Deny]
    """
_PARAMETERS = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: teams, namespace: default} # who there is
    data: {teams: "ml,web"}
    """
_CONTEXT = """\
    apiVersion: v1
    kind: Namespace
    metadata: {name: team-a}
    ---
    apiVersion: cks-admission.dev/v1
    kind: PolicyException
    metadata: {name: lenient}
    spec: {policies: [teams], reason: a ticket, until: "2100-01-01"}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: reader}
    rules: []
    ---
    apiVersion: v1
    kind: Secret
    metadata: {generateName: token-}
    """
_CLUSTER = "it belongs to the cluster, not to the policies; if the cluster lacks it, apply it first"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _write(name: str, *texts: str) -> None:
    Path(name).write_text("---\n".join(map(dedent, texts)), encoding="utf-8")


def test_policies_come_out_as_they_were_written() -> None:
    """Parameters, policies, bindings: each with its comments and blocks, only without this service's annotations."""
    _write("all.yaml", _BINDING, _POLICY.replace("DERIVE", "false"), _PARAMETERS)

    result = run("export", "native", "all.yaml")

    policy = dedent(_POLICY).replace('    cks-admission.dev/derive: "DERIVE" # only here\n', "")
    binding = dedent(_BINDING).replace("{name: teams, annotations: {cks-admission.dev/owner: me}}", "{name: teams}")
    assert result.stdout == "---\n".join([dedent(_PARAMETERS), policy, binding])
    assert (result.stderr, result.exit_code) == ("", 0)


def test_what_is_left_out_is_said() -> None:
    """What kube-apiserver does not know, what is the cluster's own, what only this service does: a line for each."""
    _write("all.yaml", _POLICY.replace("DERIVE", "true"), _BINDING, _PARAMETERS)
    _write("context.yaml", _CONTEXT)

    result = run("export", "native", "all.yaml", "context.yaml")

    assert [each["kind"] for each in yaml.safe_load_all(result.stdout)] == [
        "ConfigMap",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    assert result.stderr.splitlines() == [
        f"context.yaml:1: Namespace team-a is left out: {_CLUSTER}",
        "context.yaml:5: PolicyException lenient is left out: kube-apiserver does not know this kind",
        f"context.yaml:10: ClusterRole reader is left out: {_CLUSTER}",
        "context.yaml:15: Secret is left out: no policy uses parameters of this kind",
        (
            "all.yaml:2: ValidatingAdmissionPolicy teams also checks pod templates here; kube-apiserver "
            "checks only their Pods"
        ),
    ]
    assert result.exit_code == 0


def test_items_of_a_list_are_objects_of_their_own() -> None:
    """What has no document to itself is written anew, its expressions as blocks."""
    documents = [yaml.safe_load(dedent(each).replace("DERIVE", "false")) for each in (_BINDING, _POLICY)]
    Path("list.yaml").write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": documents}), encoding="utf-8"
    )

    result = run("export", "native", "list.yaml")

    binding, policy = documents
    policy["metadata"]["annotations"] = {"example.com/owner": "us"}
    del binding["metadata"]["annotations"]
    assert list(yaml.safe_load_all(result.stdout)) == [policy, binding]
    assert "expression: |-\n      // a team of the list\n" in result.stdout


def test_json_becomes_yaml() -> None:
    """JSON with its tabs, which YAML readers may refuse, comes out as YAML."""
    document, binding = yaml.safe_load(dedent(_POLICY)), yaml.safe_load(dedent(_BINDING))
    for name, content in (("policy.json", document), ("binding.json", binding)):
        Path(name).write_text(json.dumps(content, indent="\t"), encoding="utf-8")

    result = run("export", "native", "policy.json", "binding.json")

    document["metadata"]["annotations"] = {"example.com/owner": "us"}
    del binding["metadata"]["annotations"]
    assert list(yaml.safe_load_all(result.stdout)) == [document, binding]


def test_an_alias_of_what_is_left_out_keeps_its_value() -> None:
    """Where the author's text would be another object without the annotation, the object is written anew."""
    text = _POLICY.replace('"DERIVE"', '&team "ml"').replace("owner: us", "owner: *team")
    _write("all.yaml", text, _BINDING)

    found, _ = yaml.safe_load_all(run("export", "native", "all.yaml").stdout)

    assert found["metadata"] == {"name": "teams", "annotations": {"example.com/owner": "ml"}}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (_CONTEXT, "all.yaml: no ValidatingAdmissionPolicy or MutatingAdmissionPolicy found"),
        (_POLICY.replace("params.data", "parms.data"), "undeclared reference to 'parms'"),
        ("a: [\n", "all.yaml:2:1: not valid YAML"),
    ],
    ids=["no-policies", "a-wrong-policy", "no-yaml"],
)
def test_nothing_comes_of_what_cannot_be_used(text: str, error: str) -> None:
    """Wrong input is exit code 2, and nothing is printed that somebody might apply."""
    _write("all.yaml", text)

    result = run("export", "native", "all.yaml")

    assert (result.stdout, result.exit_code) == ("", 2)
    assert error in result.stderr


def test_native_may_be_written_as_an_option() -> None:
    """`export --native` is `export native`."""
    _write("all.yaml", _BINDING, _POLICY, _PARAMETERS)

    spelt = [run("export", native, "all.yaml") for native in ("native", "--native")]

    assert [(result.exit_code, result.stdout) for result in spelt] == [(0, spelt[0].stdout)] * 2
    assert "kind: ValidatingAdmissionPolicy\n" in spelt[0].stdout
