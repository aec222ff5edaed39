"""`cks-admission convert`: policies on stdout, what is lost on stderr with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.service.commands import last_line, run

_POLICY = """\
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: team}
spec:
  validationFailureAction: Enforce
  rules:
    - name: named
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        cel:
          expressions:
            - expression: "'team' in object.metadata.?labels.orValue({})"
              message: A Pod names its team. Add the label team.
"""
_LOST = """\
    - name: signed
      match: {any: [{resources: {kinds: [Pod]}}]}
      verifyImages: [{imageReferences: ["*"]}]
    - name: known
      match: {any: [{resources: {kinds: [Pod, example.org/v1/Widget]}}]}
      validate:
        cel:
          expressions:
            - {expression: "true"}
            - expression: "image(object.spec.image).registry() == 'here'"
"""


@pytest.fixture
def kyverno(tmp_path: Path) -> Path:
    """A file with a policy of Kyverno."""
    file = tmp_path / "kyverno.yaml"
    file.write_text(_POLICY, encoding="utf-8")
    return file


def test_what_it_prints_can_be_used(kyverno: Path, tmp_path: Path) -> None:
    """The output names its source, loads, has nothing for lint to find, and judges."""
    result = run("convert", str(kyverno))
    made, pod = tmp_path / "made.yaml", tmp_path / "pod.yaml"
    made.write_text(result.stdout, encoding="utf-8")
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n", encoding="utf-8"
    )
    checked = run("check", "-f", str(pod), "--policies", str(made))

    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.startswith(f"# {kyverno}:1: ClusterPolicy team\napiVersion: admissionregistration.k8s.io/v1\n")
    assert run("lint", str(made)).stdout == "nothing found in 1 policy\n"
    assert (checked.exit_code, "denied request: A Pod names its team." in checked.stdout) == (1, True)


def test_what_is_lost_is_told_at_its_place(kyverno: Path) -> None:
    """Each loss has file, line, column, path and reason; the rest is printed."""
    kyverno.write_text(_POLICY + _LOST, encoding="utf-8")

    result = run("convert", str(kyverno))

    value = "Invalid value: \"image(object.spec.image).registry() == 'here'\""
    unknown = "compilation failed: ERROR: <input>:1:6: undeclared reference to 'image' (in container '')"
    expression = "spec.rules[2].validate.cel.expressions[1].expression"
    lines = [
        "16:21: lost: spec.rules[1].verifyImages: this product verifies no signatures of images",
        "18:47: note: spec.rules[2].match.any[0].resources.kinds[1]: the resource of Widget is taken to be widgets",
        f"23:28: lost: {expression}: Kubernetes does not take it: {value}: {unknown}",
    ]
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(result.stdout)]
    assert (result.stderr.splitlines(), result.exit_code) == ([f"{kyverno}:{line}" for line in lines], 1)
    assert names == ["team-named", "team-named"]


def test_a_list_is_turned_item_by_item(tmp_path: Path) -> None:
    """What kubectl get -o yaml prints is taken as it is."""
    items = [
        yaml.safe_load(_POLICY),
        {"apiVersion": "kyverno.io/v1", "kind": "CleanupPolicy", "metadata": {"name": "a"}},
    ]
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")

    result = run("convert", str(file))

    kinds = [document["kind"] for document in yaml.safe_load_all(result.stdout)]
    assert kinds == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert last_line(result.stderr).endswith(": lost: kind: this product deletes no objects")


def test_files_without_such_policies_are_an_error(tmp_path: Path) -> None:
    """Where there is nothing to turn, that is said."""
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", encoding="utf-8")

    result = run("convert", str(file))

    assert (result.exit_code, last_line(result.stderr)) == (
        2,
        f"Error: {file}: no policies of Kyverno or Gatekeeper found",
    )
