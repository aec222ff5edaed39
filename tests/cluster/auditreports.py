"""The reports of an audit, and what they have to say according to its findings."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from chart.rendering import render

from cluster.service import COMMAND, NAMESPACE
from webhook.configuration.settingsfile import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cluster.apicalls import Caller
    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

NAME = f"{NAMESPACE}-audit"
_MANAGER = f"{NAMESPACE}-manage"
_DEFINITIONS = Path(__file__).with_name("definitions")
POLICY_REPORTS, OPEN_REPORTS = "wgpolicyk8s.io", "openreports.io"
_KINDS = {POLICY_REPORTS: ("v1alpha2", "PolicyReport"), OPEN_REPORTS: ("v1alpha1", "Report")}
_LABELS = {"app.kubernetes.io/managed-by": "cks-admission"}
_RESULTS = {
    "deny": ("fail", "high"),
    "error": ("error", "high"),
    "warn": ("warn", "medium"),
    "audit": ("warn", "low"),
    "exempt": ("skip", "info"),
}
_AUDITED = (
    {"group": "", "resources": ["configmaps", "secrets", "services", "pods", "serviceaccounts", "namespaces"]},
    {"group": "apps", "resources": ["deployments", "replicasets", "statefulsets"]},
    {"group": "batch", "resources": ["cronjobs", "jobs"]},
)

# What the policy reads that stays in the control plane to its end.
_PARAMETERS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}


def definitions(group: str) -> list[Manifest]:
    """Return the CustomResourceDefinitions of a group of reports."""
    files = sorted(_DEFINITIONS.glob(f"{group}_*.yaml"))
    return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]


def kind(group: str) -> str:
    """Return what kubectl calls the reports of a group."""
    return f"{_KINDS[group][1].lower()}s.{group}"


class Auditor:
    """The command of the chart's CronJob, with the rights of its account.

    manager: a kubeconfig with those of manage. settings: those with which both work.
    """

    def __init__(self, control_plane: ControlPlane, config: Path) -> None:
        """Make the accounts with their roles, and the ConfigMap for what an audit did."""
        audit = {"enabled": True, "qps": 200, "kinds": list(_AUDITED)}
        rendered = render({"audit": audit, "rbac": {"parameters": [_PARAMETERS]}})
        kinds = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
        made = [rendered.one(kind_of, name) for name in (NAME, _MANAGER) for kind_of in kinds]
        control_plane.objects.apply([*made, rendered.one("ConfigMap", NAME)])
        account = control_plane.service_account(NAMESPACE, NAME)
        self.manager = control_plane.service_account(NAMESPACE, _MANAGER)
        chosen = yaml.safe_load(rendered.configuration)["audit"]
        config = _changed(config, control_plane.directory / f"{NAME}.yaml", audit=chosen)
        self.settings = read(config)
        job = rendered.one("CronJob", NAME)["spec"]["jobTemplate"]["spec"]
        (container,) = job["template"]["spec"]["containers"]
        arguments = [f"--config={config}" if "--config" in each else each for each in container["args"]]
        self._control_plane = control_plane
        self._command = [str(COMMAND), *arguments, f"--kubeconfig={account}"]

    def run(self, *options: str, code: int = 0) -> dict[str, Any]:
        """Audit, and return the line that is logged of it. Unless something is refused, no right was missing."""
        done = subprocess.run([*self._command, *options], capture_output=True, text=True, check=False)
        others = [line for line in done.stderr.splitlines() if not line.startswith("not auditable: ")]
        assert (done.returncode, bool(others)) == (code, bool(code)), (done.stdout, done.stderr)
        (line,) = map(json.loads, done.stdout.splitlines())
        return dict(line)

    def findings(self, *options: str) -> list[dict[str, Any]]:
        """Return what an audit by the same command finds, in whatever objects."""
        command = [each for each in self._command if each != "--output=reports"]
        done = subprocess.run([*command, *options, "-o", "json"], capture_output=True, text=True, check=False)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def reports(self, group: str, *namespaces: str) -> list[Manifest]:
        """Return the reports in Namespaces, in the version in which they were written."""
        version, kind_of = _KINDS[group]
        paths = (f"/apis/{group}/{version}/namespaces/{space}/{kind_of.lower()}s" for space in namespaces)
        return [item for path in paths for item in self._control_plane.objects.read(path)["items"]]


def _changed(source: Path, file: Path, **sections: object) -> Path:
    """Write a configuration with other sections to a file, and return it."""
    file.write_text(yaml.safe_dump(yaml.safe_load(source.read_text(encoding="utf-8")) | sections), encoding="utf-8")
    return file


def expected(
    group: str, records: Iterable[Mapping[str, Any]], owners: Mapping[str, Mapping[str, str]]
) -> dict[str, Manifest]:
    """Return the reports by name for findings. owners: references to the workloads that own objects, by their names."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    references: dict[str, dict[str, str]] = {}
    for record in records:
        if record["verdict"] in _RESULTS:
            itself = {key: record[key] for key in ("apiVersion", "kind", "name", "uid")}
            reference = dict(owners.get(record["workload"], itself))
            name = f"cks-admission-{reference['uid']}"
            references[name] = reference
            by_name.setdefault(name, []).append(record)
    return {name: _report(group, references[name], found) for name, found in by_name.items()}


def _report(group: str, owner: dict[str, str], records: Sequence[Mapping[str, Any]]) -> Manifest:
    version, kind_of = _KINDS[group]
    namespace = records[0]["namespace"]
    verdicts = Counter(_RESULTS[record["verdict"]][0] for record in records)
    source = {"source": "cks-admission"}
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind_of,
        "metadata": {
            "name": f"cks-admission-{owner['uid']}", "namespace": namespace, "labels": _LABELS,
            "ownerReferences": [owner],
        },
        **(source if group == OPEN_REPORTS else {}),
        "scope": {**owner, "namespace": namespace},
        "summary": {result: verdicts[result] for result in ("pass", "fail", "warn", "error", "skip")},
        "results": list(_results(owner, records, source if group == POLICY_REPORTS else {})),
    }  # fmt: skip


def _results(
    owner: Mapping[str, str], records: Sequence[Mapping[str, Any]], source: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield what is said, the gravest first; of what the workload owns once for all."""
    said = Counter(
        (
            list(_RESULTS).index(record["verdict"]), record["policy"], record["path"],
            "" if record["uid"] == owner["uid"] else record["kind"],
            "\n".join(filter(None, (record["message"], record["remedy"]))), record["until"],
        )
        for record in records
    )  # fmt: skip
    for (gravity, policy, path, kind_of, message, until), count in sorted(said.items()):
        result, severity = list(_RESULTS.values())[gravity]
        properties = {
            "path": path, "kind": kind_of, "count": str(count) if kind_of else "", "until": until,
        }  # fmt: skip
        yield {
            "policy": policy, "result": result, "severity": severity, "message": message, **source,
            "properties": {key: value for key, value in properties.items() if value},
        }  # fmt: skip


def told(reports: Iterable[Manifest]) -> dict[str, Manifest]:
    """Return reports by name, without what differs from run to run."""
    return {report["metadata"]["name"]: _told(report) for report in reports}


def _told(report: Manifest) -> Manifest:
    metadata = {key: report["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    results = [{key: value for key, value in result.items() if key != "timestamp"} for result in report["results"]]
    for result in results:
        result["properties"] = {key: value for key, value in result["properties"].items() if key != "resultID"}
    return {**report, "metadata": metadata, "results": results}


def leave_over(caller: Caller, group: str, namespace: str) -> None:
    """Leave reports of ours that have nothing to tell any more: one in a Namespace, one in none."""
    version, kind_of = _KINDS[group]
    for prefix, place in (("", f"namespaces/{namespace}/"), ("Cluster", "")):
        kind_there = f"{prefix}{kind_of}"
        path = f"/apis/{group}/{version}/{place}{kind_there.lower()}s/cks-admission-left"
        metadata = {"name": "cks-admission-left", "labels": _LABELS}
        body = {"apiVersion": f"{group}/{version}", "kind": kind_there, "metadata": metadata}
        answer = caller.send(
            "PATCH", f"{path}?fieldManager=cks-admission-audit", body, content_type="application/apply-patch+yaml"
        )
        assert answer.code == http.client.CREATED, answer


def by_others(name: str, namespace: str, labels: Mapping[str, str]) -> Manifest:
    """Return a report that somebody else has written."""
    return {
        "apiVersion": f"{OPEN_REPORTS}/v1alpha1",
        "kind": "Report",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "results": [{"policy": "of-others", "result": "pass"}],
    }
