"""`cks-admission audit` of files, in each form, and of a cluster that does not answer everything."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, Json, named, status
from support.packmodes import OFF
from support.service.commands import last_line, run
from support.service.installation import write_kubeconfig

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


_PATH = "/api/v1/configmaps"
_OBJECTS = 450
_LABELS = {"x.coreweave.cloud/y": "z"}
_SETTINGS = {
    "policies": {"native": False, "configMaps": False},
    "packs": OFF,
    **{rule: {"action": "off"} for rule in ("tolerations", "topology", "selectors")},
}


def _resource(plural: str, kind: str) -> Json:
    return {"resource": plural, "scope": "Namespaced", "verbs": ["create", "list"], "responseKind": {"kind": kind}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[FakeApi, list[str]]]:
    """A cluster with three pages of ConfigMaps, each third with a reserved label, and the command that audits it."""
    versions = [{"version": "v1", "resources": [_resource("configmaps", "ConfigMap")]}]
    group = {"metadata": {"name": ""}, "versions": versions}
    async with FakeApi() as server:
        server.groups["/api"] = {"kind": "APIGroupDiscoveryList", "items": [group]}
        server.groups["/apis"] = {"kind": "APIGroupDiscoveryList", "items": []}
        server.put(NAMESPACES, named("a"))
        server.put(NODES, named("n", spec={}))
        for number in range(_OBJECTS):
            server.put(_PATH, named(f"m-{number:03}", {} if number % 3 else _LABELS, "a"))
        write_kubeconfig(server.url)
        (tmp_path / "cks.yaml").write_text(yaml.safe_dump(_SETTINGS), encoding="utf-8")
        yield server, ["audit", "--kubeconfig", "kube.config", "--config", "cks.yaml", "--qps", "1000"]


def _names(form: str, text: str) -> list[str]:
    """The names of the objects with findings."""
    if form == "json":
        records = [json.loads(line) for line in text.splitlines()]
        return [record["name"] for record in records if "name" in record]
    results = json.loads(text)["runs"][0]["results"]
    places = (one["locations"][0]["logicalLocations"] for one in results if one["ruleId"] == "labels")
    return [place[0]["fullyQualifiedName"].rpartition("/")[2] for place in places]


@pytest.mark.parametrize("form", ["json", "sarif"])
async def test_a_list_that_breaks_off_is_told(cluster: tuple[FakeApi, list[str]], form: str) -> None:
    """A list that is refused in its middle is told beside what was found until then; the next run is complete."""
    server, command = cluster
    server.fail(_PATH, 403, status(403, "no more"), query={"continue": "200"})
    every = [f"m-{number:03}" for number in range(0, _OBJECTS, 3)]

    first = await asyncio.to_thread(run, *command, "-o", form)
    second = await asyncio.to_thread(run, *command, "-o", form)

    done = [name for name in every if name < "m-200"]
    assert (_names(form, first.stdout), first.exit_code) == (done, 2)
    assert "no more" in first.output
    assert (_names(form, second.stdout), second.exit_code) == (every, 1)


async def test_what_was_not_read_keeps_its_reports(cluster: tuple[FakeApi, list[str]]) -> None:
    """While a kind cannot be listed, no report is removed, for it may be about what was not read; then it is."""
    server, command = cluster
    manager = {"manager": "cks-admission-audit", "operation": "Apply"}
    left = named("cks-admission-1", namespace="a")
    left["metadata"] |= {"uid": "u", "managedFields": [manager]}
    reports = "/apis/openreports.io/v1alpha1"
    server.put(f"{reports}/reports", left)
    server.install("openreports.io", {"v1alpha1": {"clusterreports": "ClusterReport"}}, namespaced=False)
    resources = [_resource("reports", "Report"), _resource("clusterreports", "ClusterReport")]
    group = {"metadata": {"name": "openreports.io"}, "versions": [{"version": "v1alpha1", "resources": resources}]}
    server.groups["/apis"]["items"].append(group)
    server.fail(_PATH, 403, status(403, "no"))

    results = [await asyncio.to_thread(run, *command, "-o", "reports") for _ in range(2)]

    ends = [(result.exit_code, json.loads(result.stdout)["reports"]["removed"]) for result in results]
    assert ends == [(2, 0), (0, 1)]
    assert [(seen.path, json.loads(seen.body)) for seen in server.seen if seen.method == "DELETE"] == [
        (f"{reports}/namespaces/a/reports/cks-admission-1", {"preconditions": {"uid": "u"}})
    ]
