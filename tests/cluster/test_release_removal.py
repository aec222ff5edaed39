"""A release is upgraded and removed, even if no replica runs: nothing is left behind, and nothing is blocked."""

from __future__ import annotations

import shutil
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from cluster import load
from cluster.polling import wait_for
from cluster.release import CHART, NAME, NAMESPACE, Release
from cluster.rights import Right, used
from policies.topology.placement import GATE

if TYPE_CHECKING:
    from pathlib import Path

HOOK = f"{NAME}-unregister"
_OTHER = "example.org/approval"
EVERYWHERE = (
    "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)
IN_NAMESPACE = (
    "configmaps,deployments,endpointslices,horizontalpodautoscalers,jobs,leases,networkpolicies,poddisruptionbudgets,pods,"
    "replicasets,rolebindings,roles,secrets,serviceaccounts,services"
)


@pytest.fixture
def removable(vacant: Release) -> Release:
    """A release that is installed, which the API server asks."""
    wait_for("nothing to be left of the release before", lambda: not left(vacant))
    vacant.values = {"replicas": 2, "policies": {"load.yaml": load.POLICIES}}
    vacant.install()
    vacant.wait_until_asked()
    return vacant


def left(release: Release) -> list[str]:
    """Return what is in the cluster of the release: all objects of the kinds that it, or the service, ever makes."""
    cluster = release.control_plane
    everywhere = cluster.kubectl("get", EVERYWHERE, "-o", "name", user="admin", check=True).stdout.split()
    inside = cluster.kubectl("get", IN_NAMESPACE, "-n", NAMESPACE, "-o", "name", user="admin", check=True).stdout
    # Every Namespace has these two, and one that had a release keeps nothing else.
    usual = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
    return [*(name for name in everywhere if "cks-admission" in name), *sorted({*inside.split()} - usual)]


def test_uninstall_with_replicas(removable: Release) -> None:
    """`helm uninstall` of a running release leaves nothing, and what was refused before can be written."""
    refused = removable.refusal({"size": "huge"})
    before = removable.control_plane.audit_log.stat().st_size

    removable.uninstall()
    wait_for("the Pods to end", lambda: not left(removable))

    assert "Huge ones are not wanted." in refused
    assert removable.refusal({"size": "huge"}) == ""
    assert removable.refusal({"foo.coreweave.cloud/bar": "true"}) == ""
    uses, forbidden = used(removable.control_plane, NAMESPACE, HOOK, since=before)
    resources = (
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    )
    group = "admissionregistration.k8s.io"
    wanted = {Right(verb, group, each, NAME) for verb in ("patch", "delete") for each in resources}
    assert (uses, forbidden) == (wanted, [])


def test_uninstall_opens_all_gates(removable: Release) -> None:
    """No Pod waits for a placer that is gone: a Job with the rights for that opens our gates, and no others."""
    cluster = removable.control_plane
    before = cluster.audit_log.stat().st_size
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "left-behind",
            "namespace": load.NAMESPACE,
            "annotations": {
                "kai.scheduler/topology": "kubernetes",
                "kai.scheduler/topology-required-placement": "zone",
            },
        },
        # With a gate of somebody else the placer leaves it alone.
        "spec": {"schedulingGates": [{"name": _OTHER}], "containers": [{"name": "c", "image": "i"}]},
    }
    answer = cluster.objects.applied(manifest, user="alice")
    assert (answer.code, answer.body["spec"]["schedulingGates"]) == (
        HTTPStatus.CREATED,
        [{"name": _OTHER}, {"name": GATE}],
    )

    removable.uninstall()
    wait_for("the Pods to end", lambda: not left(removable))

    pod = cluster.get("pod", "left-behind", "-n", load.NAMESPACE)
    assert pod["spec"]["schedulingGates"] == [{"name": _OTHER}]
    uses, forbidden = used(cluster, NAMESPACE, f"{NAME}-release", since=before)
    wanted = {Right("list", "", "pods"), Right("patch", "", "pods", "left-behind", load.NAMESPACE)}
    assert (uses, forbidden) == (wanted, [])


def test_upgrade_and_uninstall_with_none(removable: Release, tmp_path: Path) -> None:
    """A later version of the chart takes over, is scaled to nothing, and is uninstalled all the same."""
    later = tmp_path / "cks-admission"
    shutil.copytree(CHART, later)
    chart = later / "Chart.yaml"
    chart.write_text(chart.read_text(encoding="utf-8").replace("version: 0.1.0", "version: 0.2.0", 1), encoding="utf-8")
    before, authority = {each.name for each in removable.kubelet.ready()}, removable.secret()
    cluster = removable.control_plane

    removable.install(chart=later, podAnnotations={"example.org/generation": "2"})
    wait_for("the old Pods to end", lambda: not before & {each.name for each in removable.kubelet.named()})
    removable.wait_until_asked()
    upgraded = removable.secret()
    all_of_them = [f"deployment/{name}" for name in (NAME, f"{NAME}-manage", f"{NAME}-placer")]
    cluster.kubectl("scale", *all_of_them, "--replicas=0", "-n", NAMESPACE, user="admin", check=True)
    wait_for("no replica to be left", lambda: not removable.kubelet.named())
    blocked = removable.refusal({"size": "huge"})
    removable.uninstall()
    wait_for("nothing to be left", lambda: not left(removable))

    assert upgraded == authority
    assert "failed calling webhook" in blocked
    assert removable.refusal({"size": "huge"}) == ""
    assert removable.refusal({"foo.coreweave.cloud/bar": "true"}) == ""
    cluster.node("after")
    cluster.kubectl("label", "node", "after", "foo.coreweave.cloud/bar=true", check=True)


def test_uninstall_without_its_hook(removable: Release) -> None:
    """Where the Job cannot run, Kubernetes removes the configurations with the ClusterRole that owns them."""
    removable.helm("uninstall", NAME, "--no-hooks", "--wait")
    wait_for("nothing to be left", lambda: not left(removable))

    assert removable.refusal({"foo.coreweave.cloud/bar": "true"}) == ""
