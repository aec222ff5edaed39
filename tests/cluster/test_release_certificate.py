"""Without the Secret with the replicas' certificate: what is there serves on, what starts waits, and both say why."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import TYPE_CHECKING

from cluster.kubelet import COMMAND
from cluster.polling import PATIENCE, NotYet, wait_for
from cluster.release import MANAGE, NAME, NAMESPACE

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane
    from cluster.kubelet import Running
    from cluster.release import Release

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
