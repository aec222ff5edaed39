"""The chart on a real control plane: accepted in every mode, installed with its defaults, and found in order."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
import yaml
from chart.matrix import MATRIX, NEEDS

from cluster import crds, load, toolchain, workloads
from cluster.kubelet import COMMAND
from cluster.polling import PATIENCE, NotYet, wait_for, wait_until
from cluster.release import CHART, MANAGE, NAME, NAMESPACE, events
from webhook.registration.registrar import REACHED_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from cluster.kubelet import Running
    from cluster.release import Release


@pytest.mark.parametrize("name", MATRIX)
def test_every_mode_is_accepted(audited: ControlPlane, tmp_path: Path, name: str) -> None:
    """The API server takes every manifest that the chart renders, in every mode, without a warning."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(MATRIX[name]), encoding="utf-8")
    helm = [str(toolchain.ensure(("helm",)) / "helm"), "template", "other", str(CHART), "--namespace", "default"]
    command = [*helm, "--values", str(file)]
    done = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    if group := NEEDS.get(name):
        crds.install(audited, *crds.other_projects(group))

    how = ("--dry-run=server", "--server-side", "--validate=strict")
    answer = audited.apply(done.stdout, *how, user="admin")

    assert (answer.returncode, answer.stderr) == (0, "")


def test_installed_replicas_refuse(audited: ControlPlane, installed: Release) -> None:
    """After `helm install` three replicas are ready, manage writes, and kubectl shows the service's words."""
    ready, managers = installed.kubelet.ready(), installed.kubelet.ready("manage")

    assert (len(ready), len(managers)) == (3, 1)
    assert installed.holder() == managers[0].name
    refused = workloads.config_map(load.NAMESPACE, labels={"foo.coreweave.cloud/bar": "true"})
    assert "metadata.labels: foo.coreweave.cloud/bar" in audited.apply(refused).stderr
    assert installed.refusal({"size": "small"}) == ""
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        (owner,) = audited.get(kind, NAME)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("ClusterRole", NAME)


def test_pods_are_there_before_the_api_server_asks(installed: Release) -> None:
    """The first entries come when a replica has served for long enough to be known to a Service; the policy before."""
    (manager,) = installed.kubelet.ready("manage")
    written = events(manager, "registered")
    registered = next(each["timestamp"] for each in written if "Webhook" in str(each["configurations"]))
    serving = min(events(each, "certificate served")[0]["timestamp"] for each in installed.kubelet.ready())

    passed = datetime.fromisoformat(registered) - datetime.fromisoformat(serving)
    assert passed.total_seconds() >= REACHED_SECONDS
    assert "ValidatingAdmissionPolicy/" in str(written[0]["configurations"])


def test_doctor_finds_nothing_wrong(installed: Release) -> None:
    """`cks-admission doctor`, run where a Pod runs, has no complaint about a fresh installation."""
    # of whoever a busy machine stops for some seconds
    done = wait_until(
        "all to answer in time",
        lambda: installed.kubelet.execute(installed.kubelet.ready()[0], "doctor", "--config", "config/cks.yaml"),
        lambda done: "no answer within" not in done.stdout,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout


WHY = "manage writes it into Secret cks-admission-tls, and kubelets bring it within about a minute"


def readiness(replica: Running) -> tuple[int, str]:
    """Return the answer of /readyz."""
    url = f"http://{replica.address}:{replica.ports[1]}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        raise NotYet(str(error)) from error


def doctor(audited: ControlPlane, replica: Running) -> str:
    """Return what the command says that an administrator runs elsewhere."""
    arguments = [
        "doctor",
        "--config",
        "config/cks.yaml",
        "--kubeconfig",
        str(audited.kubeconfig("admin")),
        "--no-probe",
    ]
    place = replica.root / "etc/cks-admission"
    done = subprocess.run([str(COMMAND), *arguments], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_a_replica_waits_for_its_certificate(audited: ControlPlane, installed: Release) -> None:
    """A new Pod runs and is not ready, /readyz and doctor say what is missing; manage makes it and all is well."""
    installed.install()
    installed.wait_until_asked()
    before = {each.name for each in installed.kubelet.ready()}
    victim = min(before)
    where = ("-n", NAMESPACE)
    audited.kubectl("scale", f"deployment/{MANAGE}", "--replicas=0", *where, user="admin", check=True)
    wait_for("manage to end", lambda: not installed.kubelet.named(MANAGE))
    audited.kubectl("delete", f"secret/{NAME}-tls", *where, user="admin", check=True)
    audited.kubectl("delete", f"pod/{victim}", "--wait=false", *where, user="admin", check=True)

    def fresh() -> Running:
        for each in installed.kubelet.named():
            is_new = each.component == "webhook" and each.name not in before and not each.ending
            if is_new and readiness(each)[1]:
                return each
        raise NotYet(str(installed.kubelet.named()))

    replica = wait_for("a new replica", fresh)
    wait_for("the deleted one to end", lambda: not installed.kubelet.named(victim))
    code, text = readiness(replica)
    told = doctor(audited, replica)
    installed.wait_until_asked()  # the balancer knows nothing of readiness, and may send a call to the one that waits
    audited.kubectl("scale", f"deployment/{MANAGE}", "--replicas=1", *where, user="admin", check=True)
    wait_for("the replica to be ready", lambda: replica.name in {each.name for each in installed.kubelet.ready()})

    assert code == HTTPStatus.SERVICE_UNAVAILABLE
    assert WHY in text
    assert "Secret cks-admission/cks-admission-tls: it does not exist, so no replica has a certificate" in told
    assert "Deployment cks-admission-manage: 0 of 0 replicas ready" in told
    installed.wait()
