"""The audit of a live cluster, whose objects and violations are known, on a real API server."""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster import auditobjects
from cluster.apicalls import Caller
from cluster.polling import NotYet
from cluster.service import COMMAND
from cluster.throttle import SECONDS, Throttle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.apicalls import Answer
    from cluster.controlplane import ControlPlane
    from cluster.service import Service

pytestmark = pytest.mark.usefixtures("service")

_OBJECTS = 270
_NUMBERS = range(_OBJECTS)
_ENTRIES = 30
"""After so many lines of its journal an audit is interrupted; it would have some 150."""


class Audited:
    """A Namespace with objects that were there before the policies."""

    def __init__(self, control_plane: ControlPlane, service: Service, namespace: str) -> None:
        """Prepare nothing."""
        self.control_plane, self.namespace, self.twin = control_plane, namespace, f"{namespace}-twin"
        account, config = str(control_plane.kubeconfig("admin")), str(service.config)
        self.command = [str(COMMAND), "audit", "--config", config, "--kubeconfig", account, "-n", namespace]

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


_KINDS = [option for kind in auditobjects.KINDS for option in ("--kind", kind)]


def test_an_interrupted_audit_goes_on(audited: Audited, tmp_path: Path) -> None:
    """An audit that is ended by Ctrl-C goes on where it was: both runs together tell each finding once."""
    progress = tmp_path / "progress"
    options = [*_KINDS, "-o", "json", "--resume", str(progress)]
    command = [*audited.command, *options, "--qps", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        audited.control_plane.wait_for("some progress", lambda: _lines(progress) > _ENTRIES)
        running.send_signal(signal.SIGINT)
        told = running.communicate()[0]
    assert running.returncode == 128 + signal.SIGINT
    last = audited.run(*options)
    assert last.returncode == 1, last.stderr
    assert 0 < len(found(told)) < len(list(known().elements()))
    assert Counter(found(told + last.stdout)) == known()
    assert not progress.exists()


def _lines(file: Path) -> int:
    """Return how many lines a file has, which may not be there yet."""
    return len(file.read_bytes().splitlines()) if file.exists() else 0


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
