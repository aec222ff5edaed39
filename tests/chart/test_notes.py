"""What helm tells: after an installation, and of values that cannot work, before anything is installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.rendering import CHART, NAMESPACE, ChartError, read, run, template

_SHOWN = (
    'kind: Notes\nmetadata: {name: notes}\ntext: {{ include (print $.Template.BasePath "/NOTES.txt") . | toJson }}\n'
)
_NO_ACCESS = {
    "cluster": {"access": False},
    "certificates": {"mode": "secret", "secretName": "given-tls"},
    "registration": {"mode": "none"},
}


@pytest.fixture(name="chart")
def _chart(tmp_path: Path) -> Path:
    """The chart with its notes as an object: helm shows them only where there is a cluster."""
    copy = tmp_path / "chart"
    shutil.copytree(CHART, copy)
    (copy / "templates" / "notes.yaml").write_text(_SHOWN, encoding="utf-8")
    return copy


def _notes(chart: Path, values: dict[str, Any], namespace: str = NAMESPACE) -> str:
    text = run("template", "cks-admission", str(chart), "--namespace", namespace, values=values)
    notes: str = read(text).one("Notes", "notes")["text"]
    return notes


def test_notes_say_what_was_installed_and_how_to_be_rid_of_it(chart: Path) -> None:
    """They name the modes, the command that looks whether all is well, and the line that frees the cluster."""
    notes = _notes(chart, {})

    assert "certificates  self\n" in notes
    assert "registration  managed\n" in notes
    assert "packs         interruptable-qos warn, scheduling-safety warn, sunk warn\n" in notes
    assert "policies      ConfigMaps in cks-admission with the label cks-admission.dev/policies=true\n" in notes
    assert "-- cks-admission doctor --config config/cks.yaml\n" in notes
    assert notes.endswith(
        "  kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration cks-admission\n"
    )


def test_notes_show_the_packs_as_they_are(chart: Path) -> None:
    """Each mode is shown as written: a word, a boolean that YAML makes of off, or in a map."""
    packs = {"interruptable-qos": {"mode": "enforce"}, "scheduling-safety": {"policies": {}}, "sunk": False}

    assert "packs         interruptable-qos enforce, scheduling-safety warn, sunk off\n" in _notes(
        chart, {"config": {"packs": packs}}
    )


def test_notes_say_what_is_left_to_do(chart: Path) -> None:
    """Where nobody registers the service, the notes say how."""
    notes = _notes(chart, _NO_ACCESS)

    assert "certificates  secret, Secret given-tls\n" in notes
    assert "policies      none\n" in notes
    assert "Register the service; before that, nothing is judged:\n" in notes
    assert "caBundle" not in notes
    assert "Each caBundle must be the value of ca-bundle.crt in the Secret cks-admission-ca" in _notes(
        chart, {"registration": {"mode": "none"}}
    )


def test_notes_warn(chart: Path) -> None:
    """A namespace that is left alone by living in it, and a single replica, are told."""
    notes = _notes(chart, {"replicas": 1}, namespace="default")

    assert "WARNING: the service does not judge the namespace that it runs in, which is default." in notes
    assert "WARNING: with one replica, writes that fail closed are refused whenever its Node is lost.\n" in notes


_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec: {matchConstraints: {}, MORE}
---
"""
_REFUSING = {
    "tolerations": {"action": "deny"},
    "sunk": {"action": "deny"},
    "topology": {"unapplied": "deny", "deletion": "deny"},
}


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ({}, ["writes that add or change reserved labels"]),
        (
            {
                "config": _REFUSING,
                "policies": {
                    "a.yaml": _POLICY.replace("NAME", "strict").replace(", MORE", "")
                    + _POLICY.replace("NAME", "open").replace("MORE", "failurePolicy: Ignore"),
                },
            },
            [
                "writes that add or change reserved labels",
                "Pods without a toleration for CPU Nodes, and DaemonSets (tolerations.action)",
                "DaemonSets (sunk.action)",
                "Pods and workloads with topology annotations (topology.unapplied)",
                "deletions of Topology objects (topology.deletion)",
                "what the policy strict in a.yaml matches",
            ],
        ),
        ({"config": {"labels": {"action": "warn"}}}, []),
    ],
    ids=["default", "all", "nothing"],
)
def test_notes_name_what_an_outage_would_refuse(chart: Path, values: dict[str, Any], lines: list[str]) -> None:
    """They name what fails closed with these values, and where Pods of components have to be named."""
    notes = _notes(chart, values)

    assert [line.removeprefix("  - ") for line in notes.splitlines() if line.startswith("  - ")] == lines
    assert ("While no replica answers" in notes, "config.safety.namespaces" in notes) == (bool(lines), bool(lines))


_REFUSED: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "refused.yaml").read_text(encoding="utf-8")
)


def _said(case: dict[str, Any]) -> str:
    with pytest.raises(ChartError) as caught:
        template(case["values"])
    return str(caught.value)


@pytest.mark.parametrize("name", _REFUSED["schema"])
def test_a_value_of_a_wrong_form_is_refused(name: str) -> None:
    """The schema refuses it, and says where it stands and what was expected."""
    case = _REFUSED["schema"][name]

    assert case["says"] in _said(case)


@pytest.mark.parametrize("name", _REFUSED["templates"])
def test_values_that_contradict_each_other_are_refused(name: str) -> None:
    """The chart says what was found, and what to set."""
    case = _REFUSED["templates"][name]

    # Helm puts the place in the template before it, and advice of its own below it.
    assert _said(case).splitlines()[0].endswith(f": {case['says']}")
