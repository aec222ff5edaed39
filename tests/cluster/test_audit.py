"""The audit of a live cluster, whose objects and violations are known, on a real API server."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import secrets
import ssl
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import yaml
from aiohttp import ClientConnectionError, ClientSession, TCPConnector, web
from support.service.servers import leader

from cluster import auditobjects, auditreports, crds, manifests
from cluster.apicalls import Caller
from cluster.auditreports import OPEN_REPORTS, POLICY_REPORTS, Auditor
from cluster.polling import NotYet, wait_for
from cluster.rights import granted, used
from cluster.service import COMMAND, NAMESPACE
from policies import nodepool
from webhook.audit.finding import Part
from webhook.cluster.api.client import connect
from webhook.cluster.inspection.auditing import SHARE
from webhook.cluster.replicas.checks import AuditCheck
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path
    from types import TracebackType

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

pytestmark = pytest.mark.usefixtures("service")

_OBJECTS = 270
_NUMBERS = range(_OBJECTS)


class Audited:
    """A Namespace with objects that were there before the policies."""

    def __init__(self, control_plane: ControlPlane, service: Service, namespace: str) -> None:
        """Prepare nothing."""
        self.control_plane, self.namespace, self.twin = control_plane, namespace, f"{namespace}-twin"
        account, self.config = str(control_plane.kubeconfig("admin")), service.config
        self.command = [str(COMMAND), "audit", "--config", str(self.config), "--kubeconfig", account, "-n", namespace]

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Audit the Namespace."""
        command = [*self.command, "--qps", "100", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def audited(control_plane: ControlPlane, service: Service) -> Iterator[Audited]:
    """Make the objects as the administrator, whom the rule of labels leaves alone, and then the policies."""
    namespace = f"audit-{secrets.token_hex(4)}"
    for name in (namespace, f"{namespace}-twin"):
        control_plane.namespace(name, labels={auditobjects.SELECTED: namespace})
    with Caller(control_plane) as caller:
        for number in _NUMBERS:
            obj = auditobjects.made(number, namespace)
            answer = caller.send("POST", auditobjects.PATHS[obj["kind"]].format(namespace), obj)
            assert answer.code == http.client.CREATED, answer
    made = list(auditobjects.policies({"matchLabels": {auditobjects.SELECTED: namespace}}))
    control_plane.objects.apply(made)
    audited = Audited(control_plane, service, namespace)
    with Caller(control_plane) as caller:
        control_plane.wait_for("the policies to be in force", lambda: _in_force(audited, caller))
    yield audited
    control_plane.objects.delete_manifests(made)
    control_plane.objects.delete("namespace", namespace, audited.twin)


def _in_force(audited: Audited, caller: Caller) -> bool:
    """Tell whether the last policies refuse, warn and change, each an object that violates only it."""
    answers = [_created(audited, caller, number) for number in (25, 16, 9)]
    if [_verdict(answer) for answer in answers] != [(True, False, False), (False, True, False), (False, False, True)]:
        raise NotYet(str(answers))
    return True


def found(output: str) -> list[tuple[str, str, str, str]]:
    """Return policy, verdict, kind and name of each finding, without those of objects that the cluster made."""
    records = [json.loads(line) for line in output.splitlines()]
    return [(r["policy"], r["verdict"], r["kind"], r["name"]) for r in records if r["name"].startswith("o-")]


def known() -> Counter[tuple[str, str, str, str]]:
    """Return what is wrong with the objects."""
    return Counter(violation for number in _NUMBERS for violation in auditobjects.violations(number))


def test_each_violation_is_reported_once(audited: Audited) -> None:
    """Every known violation is a finding, once, and there are no others; what cannot be judged is named."""
    audit = audited.run("-o", "json")
    assert audit.returncode == 1, audit.stderr
    assert Counter(found(audit.stdout)) == known()
    silent = [line.split(": ")[1] for line in audit.stderr.splitlines() if line.startswith("not auditable: ")]
    assert [name for name in silent if name.startswith("audit-")] == sorted(auditobjects.SILENT)


def test_its_verdicts_are_those_of_admission(audited: Audited) -> None:
    """Whoever creates the same objects beside them is refused, warned and helped exactly where the audit says so."""
    told: dict[str, set[tuple[str, str]]] = {}
    for policy, verdict, _, name in found(audited.run("-o", "json").stdout):
        told.setdefault(name, set()).add((policy, verdict))
    with Caller(audited.control_plane) as caller:
        answers = {f"o-{number:05}": _created(audited, caller, number) for number in _NUMBERS}
    assert {name: _verdict(answer) for name, answer in answers.items()} == {
        name: _expected(told.get(name, set())) for name in answers
    }


def _created(audited: Audited, caller: Caller, number: int) -> Answer:
    """Return the answer to a dry run by alice."""
    obj = auditobjects.made(number, audited.twin)
    path = auditobjects.PATHS[obj["kind"]].format(audited.twin)
    return caller.send("POST", f"{path}?dryRun=All", obj, user="alice")


def _verdict(answer: Answer) -> tuple[bool, bool, bool]:
    """Return whether the object is refused, and if not, whether there is a warning and a change."""
    if answer.code != http.client.CREATED:
        return True, False, False
    warned = any("audit-latest" in warning for warning in answer.warnings)
    return False, warned, "example.org/owner" in (answer.body["metadata"].get("annotations") or {})


def _expected(findings: set[tuple[str, str]]) -> tuple[bool, bool, bool]:
    """Return the same from findings."""
    verdicts = {verdict for _, verdict in findings}
    if "deny" in verdicts:
        return True, False, False
    return False, ("audit-latest", "warn") in findings, ("audit-owner", "mutate") in findings


SECONDS = 1
"""How long whoever is refused by the way below is asked to wait."""


class Throttle:
    """A way to the API server, from `async with` to the end of the block, for an account with a token.

    refused: the first request for each of these paths is refused. times: when these were asked for.
    """

    def __init__(self, control_plane: ControlPlane, account: Path, refused: Collection[str]) -> None:
        self._server, self._refused = control_plane.server, refused
        self._content = yaml.safe_load(account.read_text(encoding="utf-8"))
        self._context = ssl.create_default_context(cafile=str(control_plane.ca_file))
        self.times: dict[str, list[float]] = {}

    async def __aenter__(self) -> Self:
        """Listen."""
        self._session = ClientSession(connector=TCPConnector(ssl=self._context))
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        _, port, *_ = self._runner.addresses[0]
        self._content["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close everything."""
        await self._runner.cleanup()
        await self._session.close()

    def kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig that leads this way."""
        path.write_text(yaml.safe_dump(self._content), encoding="utf-8")
        return path

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        times = self.times.setdefault(request.path, []) if request.path in self._refused else []
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1 and request.path in self._refused:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "message": "too many"}
            return web.json_response(status, status=429, headers={"Retry-After": str(SECONDS)})
        headers = {name: request.headers[name] for name in ("Accept", "Authorization")}
        async with self._session.get(f"{self._server}{request.path_qs}", headers=headers) as answer:
            kept = {"Content-Type": answer.headers["Content-Type"]}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            try:
                async for part in answer.content.iter_any():
                    await response.write(part)
            except ClientConnectionError:
                return response  # whoever watched has gone
            return response


_KINDS = [option for kind in auditobjects.KINDS for option in ("--kind", kind)]


async def test_a_throttled_api_server_is_obeyed(audited: Audited, tmp_path: Path) -> None:
    """A request that is refused as one too many comes again after the time that was asked for, and nothing is lost."""
    plane = audited.control_plane
    account = plane.service_account("default", f"throttled-{secrets.token_hex(4)}", role="cluster-admin")
    plane.wait_for("the rights of the account", lambda: plane.kubectl("get", "nodes", user=account).returncode == 0)
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    lists = [auditobjects.PATHS[kind].format(audited.namespace) for kind in ("ConfigMap", "Pod")]
    refused = ("/apis", policies, *lists)
    async with Throttle(plane, account, refused) as way:
        kubeconfig = way.kubeconfig(tmp_path / "kubeconfig")
        audit = await asyncio.create_subprocess_exec(
            *audited.command, "--kubeconfig", str(kubeconfig), *_KINDS, "-o", "json", stdout=subprocess.PIPE
        )
        told, _ = await audit.communicate()
    assert audit.returncode == 1
    assert Counter(found(told.decode())) == known()
    assert {path: len(times) for path, times in way.times.items()} == dict.fromkeys(refused, 2)
    assert all(later - first >= SECONDS for first, later in way.times.values())


_PODS = 2


class Reported:
    """The audited Namespace, with a Deployment that has Pods, after an audit that left reports in it."""

    def __init__(self, audited: Audited) -> None:
        """Write reports, first of the older kind, and then of the newer one, which is there by then."""
        self._plane, self.objects = audited.control_plane, audited.control_plane.objects
        self.namespace, self.twin = audited.namespace, audited.twin
        self.auditor = Auditor(audited.control_plane, audited.config)
        self.before = self._written()
        self.policy_reports = self.auditor.reports(POLICY_REPORTS, self.namespace)
        crds.install(audited.control_plane, *auditreports.definitions(OPEN_REPORTS))
        self.after = self._written()
        self.reports = self.auditor.reports(OPEN_REPORTS, self.namespace)

    def _written(self) -> dict[str, object]:
        return self.auditor.run("-n", self.namespace)

    def versions(self) -> dict[str, str]:
        """Return the resourceVersion of each report that is there now, by its name."""
        reports = self.auditor.reports(OPEN_REPORTS, self.namespace)
        return {report["metadata"]["name"]: report["metadata"]["resourceVersion"] for report in reports}

    def events(self, group: str) -> list[Manifest]:
        """Return the Events about reports of a group."""
        events = self.objects.read(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        return [event for event in events if event["reason"] == "WouldBeRefused" and group in event["message"]]

    def kubectl(self, *arguments: str) -> str:
        """Return what kubectl prints."""
        return self._plane.kubectl(*arguments, user="admin", check=True).stdout

    def reference(self, kind: str, name: str) -> dict[str, str]:
        """Return the reference to an object."""
        found = self.objects.get(kind, name, "-n", self.namespace)
        head = {key: found[key] for key in ("apiVersion", "kind")}
        return {**head, "name": name, "uid": found["metadata"]["uid"]}

    def report(self, number: int) -> str:
        """Return the name of the report about an object by its number."""
        return f"cks-admission-{self.reference(auditobjects.made(number, '')['kind'], f'o-{number:05}')['uid']}"


@pytest.fixture(scope="module")
def reported(audited: Audited) -> Iterator[Reported]:
    """Make the Deployment, and let reports be written."""
    plane = audited.control_plane
    plane.objects.create(auditobjects.deployment("web", audited.namespace, _PODS))

    def complete() -> bool:
        pods = plane.get("pods", "-n", audited.namespace, "-l", "app=web")["items"]
        return len(pods) == _PODS

    plane.wait_for("the Pods of the Deployment", complete)
    with crds.installed(plane, *auditreports.definitions(POLICY_REPORTS)):
        yield Reported(audited)
        crds.remove(plane, *auditreports.definitions(OPEN_REPORTS))


def test_reports_are_the_findings(reported: Reported) -> None:
    """Each workload with findings has a report that says all of them, of the newest kind that the cluster has.

    The Pods of a Deployment are in its report. Reports of the older kind go.
    """
    findings = reported.auditor.findings("-n", reported.namespace)
    owners = {"Deployment/web": reported.reference("deployment", "web")}
    reports = [auditreports.expected(group, findings, owners) for group in (POLICY_REPORTS, OPEN_REPORTS)]
    count = len(reports[0])
    (of_pods,) = (each for each in reports[1].values() if each["scope"]["name"] == "web")
    (result,) = of_pods["results"]

    assert [auditreports.told(reported.policy_reports), auditreports.told(reported.reports)] == reports
    assert [line["reports"] for line in (reported.before, reported.after)] == [
        {"written": count, "unchanged": 0, "removed": 0, "refused": 0},
        {"written": count, "unchanged": 0, "removed": count, "refused": 0},
    ]
    assert reported.auditor.reports(POLICY_REPORTS, reported.namespace) == []
    assert (result["properties"]["kind"], result["properties"]["count"]) == ("Pod", str(_PODS))
    identities = [each["properties"]["resultID"] for report in reported.reports for each in report["results"]]
    assert len(set(identities)) == len(identities)


def test_who_looks_at_a_workload_sees_what_would_be_refused(reported: Reported) -> None:
    """Events are on the first objects of whose reports something is refused, with the command that shows the report.

    A Namespace has few of them in a run. The right to create them is the chart's.
    """
    refused = [report for report in reported.reports if report["summary"]["fail"]]
    chosen = sorted(refused, key=lambda report: str(report["scope"]["uid"]))[:SHARE]
    by_uid = {event["involvedObject"]["uid"]: event for event in reported.events(OPEN_REPORTS)}

    assert [line["events"] for line in (reported.before, reported.after)] == 2 * [
        {"written": SHARE, "omitted": len(refused) - SHARE, "failed": 0}
    ]
    assert [by_uid[uid]["involvedObject"] for uid in sorted(by_uid)] == [report["scope"] for report in chosen]
    report = next(report for report in chosen if report["scope"]["kind"] != "Secret")  # of which no Events are shown
    scope = report["scope"]
    policies = ", ".join(dict.fromkeys(result["policy"] for result in report["results"] if result["result"] == "fail"))
    shown = reported.kubectl("describe", scope["kind"], scope["name"], "-n", scope["namespace"])
    assert f"Would be refused if created today: {scope['kind']} by {policies}. " in shown
    (command,) = re.findall(r"Its report: kubectl (get reports\.openreports\.io .*)", shown)
    assert yaml.safe_load(reported.kubectl(*command.split()))["results"] == report["results"]


def test_a_second_audit_writes_nothing(reported: Reported) -> None:
    """An audit that finds the same leaves every report in the version in which it is, and tells nobody."""
    before = reported.versions()
    again = reported.auditor.run("-n", reported.namespace)

    assert again["reports"] == {"written": 0, "unchanged": len(before), "removed": 0, "refused": 0}
    assert again["events"] == {"written": 0, "omitted": 0, "failed": 0}
    assert reported.versions() == before


def test_a_report_goes_with_what_it_is_about(reported: Reported) -> None:
    """Whoever deletes an object has no report of it any more: Kubernetes' own garbage collector removes it."""
    name = reported.report(45)
    assert name in reported.versions()
    reported.objects.delete("configmap", "o-00045", namespace=reported.namespace)
    wait_for("the report to go", lambda: name not in reported.versions())


def test_what_is_mended_has_no_report_and_others_keep_theirs(reported: Reported) -> None:
    """The report of a mended object is removed. One of others stays as it is, though it has our label or our name."""
    mended, taken = reported.report(5), reported.report(10)
    manifest = auditobjects.made(5, reported.namespace)
    manifest["metadata"]["labels"]["team"] = "team-1"
    reported.objects.delete(auditreports.kind(OPEN_REPORTS), taken, namespace=reported.namespace)
    labels = {"app.kubernetes.io/managed-by": "cks-admission"}
    others = [
        auditreports.by_others("other", reported.namespace, {}),
        auditreports.by_others("alike", reported.namespace, labels),
        auditreports.by_others(taken, reported.namespace, {}),
    ]
    reported.objects.apply([manifest, *others])
    before = reported.versions()

    again = reported.auditor.run("-n", reported.namespace, code=2)

    unchanged = len(before) - len(others) - 1
    assert again["reports"] == {"written": 0, "unchanged": unchanged, "removed": 1, "refused": 1}
    assert reported.versions() == {name: version for name, version in before.items() if name != mended}
    reported.objects.delete_manifests(others)


def test_two_audits_of_parts_are_one_of_the_whole(reported: Reported) -> None:
    """Audits of the parts of a cluster, one after the other, leave the reports of one audit of the whole."""
    spaces = (reported.namespace, reported.twin)
    options = [option for space in spaces for option in ("-n", space)]
    count = next(count for count in range(2, 32) if len({part(space, count) for space in spaces}) == len(spaces))
    indexes = [part(space, count) for space in spaces]
    kind = auditreports.kind(OPEN_REPORTS)
    reported.objects.delete_all(kind, namespace=reported.namespace)

    lines = [reported.auditor.run(*options, f"--shard={index}/{count}") for index in indexes]

    findings = reported.auditor.findings(*options)
    owners = {"Deployment/web": reported.reference("deployment", "web")}
    assert auditreports.told(reported.auditor.reports(OPEN_REPORTS, *spaces)) == auditreports.expected(
        OPEN_REPORTS, findings, owners
    )
    objects = [
        Counter(str(record["namespace"]) for record in findings if record["verdict"] == "audit")[space]
        for space in spaces
    ]
    assert [line["verdicts"]["audit"] for line in lines] == objects


@pytest.fixture(scope="module")
def whole(reported: Reported, control_plane: ControlPlane) -> dict[str, Any]:
    """Audit the whole cluster where there is of everything that an audit looks at, and return what it logged of it."""
    space, objects = reported.twin, control_plane.objects
    control_plane.namespace(space, labels={auditobjects.SELECTED: reported.namespace, auditobjects.RESERVED: "yes"})
    owner = objects.create(auditobjects.made(auditobjects.KINDS.index("Deployment"), space))
    owned = auditobjects.made(auditobjects.KINDS.index("ServiceAccount"), space)  # which is listed before its owner
    reference = {**{key: owner[key] for key in ("apiVersion", "kind")}, "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    objects.create({**owned, "metadata": {**owned["metadata"], "ownerReferences": [reference]}})
    objects.create(auditobjects.queued(space))
    with Caller(control_plane) as caller:
        for group in (POLICY_REPORTS, OPEN_REPORTS):
            auditreports.leave_over(caller, group, space)
    pools = [
        manifests.custom_resource(nodepool.KIND, group, v[0], scope="Cluster") for group, v in nodepool.VERSIONS.items()
    ]
    topologies = (crds.KAI_TOPOLOGY, crds.KUEUE_TOPOLOGY, crds.GROVE_TOPOLOGY)
    with crds.installed(control_plane, *topologies, *pools):
        return reported.auditor.run()


def test_no_right_is_missing_or_too_much(whole: dict[str, Any], control_plane: ControlPlane) -> None:
    """The audit uses every verb on every resource that the chart's roles give it, and is forbidden nothing.

    It reads owners one by one, which are of any kind. Of two names of a kind it takes the newer: of Grove's topologies,
    and of reports, by which the older ones about what is in no Namespace are only removed here.
    """
    del whole
    uses, forbidden = used(control_plane, NAMESPACE, auditreports.NAME)
    rights = granted(control_plane, NAMESPACE, auditreports.NAME)
    unused = {right[:3] for right in rights if not any(right.covers(use) for use in uses)}

    assert forbidden == []
    assert {right for right in unused if right[0] != "get"} == {
        *((verb, POLICY_REPORTS, "clusterpolicyreports") for verb in ("create", "patch")),
        *((verb, "grove.io", "clustertopologies") for verb in ("list", "watch")),
    }
    assert ("get", "apps", "deployments") not in unused


_OF_AUDITS = "cks_admission_audit_"


async def test_metrics_show_what_the_last_audit_did(reported: Reported, whole: dict[str, Any]) -> None:
    """What an audit logs about itself, manage shows as metrics; an audit of one Namespace does not hide the whole one.

    Each may do so with the rights that the chart gives it.
    """
    auditor, metrics = reported.auditor, Metrics("manage")
    auditor.run("-n", reported.twin)
    async with await connect(str(auditor.manager), in_cluster=False) as api:
        await AuditCheck(leader(api, lambda: auditor.settings, metrics)).look()

    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    shown = {(sample.name, *sample.labels.values()): sample.value for sample in samples if _OF_AUDITS in sample.name}
    expected: dict[tuple[str, ...], float] = {
        (f"{_OF_AUDITS}end_timestamp_seconds",): whole["ended"],
        (f"{_OF_AUDITS}duration_seconds",): whole["seconds"],
        (f"{_OF_AUDITS}objects",): whole["objects"],
        (f"{_OF_AUDITS}unreadable_kinds",): whole["unreadable"],
    }
    for family in ("reports", "events"):
        expected |= {(f"{_OF_AUDITS}{family}", outcome): count for outcome, count in whole[family].items()}
    for policy, verdicts in whole["findings"].items():
        expected |= {(f"{_OF_AUDITS}findings", policy, verdict): count for verdict, count in verdicts.items()}
    assert shown == expected


def part(namespace: str, count: int) -> int:
    """Return the part of so many in which a Namespace is."""
    return next(index for index in range(count) if Part(index, count).has(namespace))
