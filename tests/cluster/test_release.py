"""The chart on a real control plane: accepted in every mode, installed with its defaults, and found in order."""

from __future__ import annotations

import subprocess
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
import yaml
from chart.matrix import MATRIX, NEEDS

from cluster import crds, load, toolchain, workloads
from cluster.polling import wait_until
from cluster.release import CHART, NAME, events
from webhook.registration.registrar import REACHED_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.controlplane import ControlPlane
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
