"""Packs on the command line: which verbs use them, and how they are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import pod
from support.packmodes import OFF
from support.policies.policydocuments import policy
from support.service.commands import run

pytestmark = pytest.mark.usefixtures("_files")

_LABEL = {"qos.coreweave.cloud/interruptable": "yes"}
_POLICY = policy("NAME", "true", "No.").replace("[pods]", "[secrets]")


@pytest.fixture(name="_files")
def _in_a_directory() -> None:
    """A Pod with a wrong label, two configurations and two policies, in the current directory."""
    texts = {
        "pod.yaml": yaml.safe_dump(pod(labels=_LABEL)),
        "enforce.yaml": "packs: {interruptable-qos: enforce}",
        "off.yaml": yaml.safe_dump({"packs": OFF}),
        "other.yaml": _POLICY.replace("NAME", "other"),
        "own.yaml": _POLICY.replace("NAME", "interruptable-value"),
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")


def _checked(*arguments: str) -> str:
    """What the pack's policy decides: deny, warn or audit; empty if it is not asked."""
    (outcome,) = json.loads(run("check", "-f", "pod.yaml", "-o", "json", *arguments).stdout)
    verdicts: dict[str, Any] = {decision["rule"]: decision["verdict"] for decision in outcome["decisions"]}
    return str(verdicts.get("interruptable-value", ""))


def test_who_uses_packs() -> None:
    """Check does by default, by its configuration, and with policies only if the configuration names the pack."""
    rows = {
        (): "warn",
        ("--config", "enforce.yaml"): "deny",
        ("--config", "off.yaml"): "",
        ("--policies", "other.yaml"): "",
        ("--config", "enforce.yaml", "--policies", "other.yaml"): "deny",
    }

    assert {arguments: _checked(*arguments) for arguments in rows} == rows


def test_a_policy_with_the_name_of_a_shipped_one_is_said() -> None:
    """The shipped one is not used, and stderr says so, and that the other matches nothing here."""
    result = run("check", "-f", "pod.yaml", "--config", "enforce.yaml", "--policies", "own.yaml")

    assert result.stderr == (
        "packs: the shipped interruptable-value is not used: another policy has this name\n"
        "0 of 1 objects matched interruptable-value (secrets)\n"
    )
    assert result.exit_code == 0


def test_export_native_prints_them_as_they_are_configured() -> None:
    """Bindings have the actions of the modes; without a pack that is on there is nothing to print."""
    result = run("export", "native", "--config", "enforce.yaml")
    nothing = run("export", "native", "--config", "off.yaml")

    objects = [each for each in yaml.safe_load_all(result.stdout) if each["kind"].endswith("Binding")]
    actions = {each["metadata"]["name"]: each["spec"]["validationActions"] for each in objects}
    assert (actions["interruptable-value"], actions["lock-toleration"]) == (["Deny"], ["Warn"])
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert "off.yaml: packs: no ValidatingAdmissionPolicy" in nothing.stderr
