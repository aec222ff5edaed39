"""`cks-admission audit` of a cluster that does not answer everything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, Json, named, status
from support.packmodes import OFF
from support.service.commands import run
from support.service.installation import write_kubeconfig

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
