"""`cks-admission audit` of files, in each form."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.service.commands import last_line, run

_EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "audit"


@pytest.fixture
def audit() -> tuple[str, ...]:
    """The audit of the guide, whose exception lasts."""
    shutil.copytree(_EXAMPLES, ".", dirs_exist_ok=True)
    policies = Path("team.yaml")
    policies.write_text(policies.read_text(encoding="utf-8").replace("2026-12-31", "2999-12-31"), encoding="utf-8")
    return "audit", "live.yaml", "--policies", "team.yaml"


def test_json_is_a_line_for_each_finding(audit: tuple[str, ...]) -> None:
    """Each line has what a program needs; what is not asked is on stderr."""
    result = run(*audit, "-o", "json")

    records = [json.loads(line) for line in result.stdout.splitlines()]
    keys = ("policy", "verdict", "kind", "namespace", "name", "workload", "path", "until")
    assert [tuple(record[key] for key in keys) for record in records] == [
        ("team", "deny", "Deployment", "team-a", "web", "Deployment/web", "metadata", ""),
        ("team", "exempt", "Deployment", "team-b", "shop", "Deployment/shop", "metadata", "2999-12-31T23:59:59Z"),
        ("tolerations", "mutate", "Pod", "team-a", "notebook", "Pod/notebook", "spec.tolerations", ""),
    ]
    assert result.exit_code == 1
    assert "not auditable: small-steps: it judges UPDATE, which no object shows" in result.stderr


def test_findings_stand_at_their_lines(audit: tuple[str, ...]) -> None:
    """SARIF has each finding at the line of its field, an error only where admission would refuse; JUnit has cases."""
    (log,) = json.loads(run(*audit, "-o", "sarif").stdout)["runs"]
    (suite,) = ET.fromstring(run(*audit, "-o", "junit").stdout)  # noqa: S314 - it is our own

    places = [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in log["results"]]
    found = [(one["ruleId"], one["level"], line) for one, line in zip(log["results"], places, strict=True)]
    assert found == [("team", "error", 3), ("team", "note", 12), ("tolerations", "note", 22)]
    assert list(map(suite.get, ("tests", "failures", "errors"))) == ["3", "1", "0"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("-n team-b", "1 object audited: 1 exempt"),
        ("--kind pods", "1 object audited: 1 would be changed"),
        ("--kind Deployment.apps -n team-a", "1 object audited: 1 would be refused"),
    ],
)
def test_namespaces_and_kinds_are_chosen(audit: tuple[str, ...], more: str, told: str) -> None:
    """Only what is asked for is judged, and only a refusal is a failure."""
    result = run(*audit, *more.split())

    assert (last_line(result.stdout), result.exit_code) == (told, "refused" in told)


def test_one_bad_document_hides_nothing(audit: tuple[str, ...]) -> None:
    """What cannot be read is told and is exit code 2, and the rest is judged."""
    file = Path("live.yaml")
    file.write_text(file.read_text(encoding="utf-8") + "---\nnothing\n", encoding="utf-8")

    result = run(*audit)

    assert last_line(result.stdout).endswith("1 would be refused, 1 would be changed, 1 exempt, 1 not read")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "name files or folders, or a cluster with --kubeconfig"),
        ("x.yaml --kubeconfig k", "files and --kubeconfig are two audits; give one of them"),
        ("x.yaml -o reports", "-o reports is for the audit of a cluster"),
        ("x.yaml --shard 0/2", "--shard is for the audit of a cluster"),
        ("--kubeconfig k --shard 4/4", "Invalid value for '--shard': '4/4' is not INDEX/COUNT, such as 0/4 to 3/4"),
    ],
)
def test_wrong_usage_is_told(arguments: str, error: str) -> None:
    """What cannot be meant is an error that says what to do."""
    result = run("audit", *arguments.split())

    assert (last_line(result.stderr), result.exit_code) == (f"Error: {error}", 2)
