"""Releases that do not stay: upgraded and removed, even with no replica, and the other modes of the chart in use."""

from __future__ import annotations

import base64
import http.client
import shutil
import ssl
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from certs.material import new_authority
from cluster import load, manifests, placements, workloads
from cluster.controlplane import ControlPlane
from cluster.kubelet import COMMAND
from cluster.polling import PATIENCE, NotYet, wait_for
from cluster.release import CHART, NAME, NAMESPACE, Release, events
from cluster.rights import Right, used
from policies.topology.placement import GATE

if TYPE_CHECKING:
    from pathlib import Path

    from certs.material import Authority

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
    # With a gate of somebody else the placer leaves it alone.
    pod = workloads.pod(load.NAMESPACE, "left-behind", schedulingGates=[{"name": _OTHER}])
    made = cluster.objects.create(placements.annotated(pod, "zone", topology="kubernetes"), user="alice")
    assert made["spec"]["schedulingGates"] == [{"name": _OTHER}, {"name": GATE}]

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


SECRET = "given-pair"
RENDERED = {"mode": "rendered"}


def give(cluster: ControlPlane, authority: Authority) -> None:
    """Put a pair by a CA into the operator's Secret."""
    leaf = authority.issue(["127.0.0.1"], datetime.now(UTC))
    contents = {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem, "ca.crt": authority.cert_pem}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {key: base64.b64encode(content).decode() for key, content in contents.items()},
    }
    cluster.objects.apply([manifests.namespace(NAMESPACE), secret])


def test_only_the_api_server_is_answered(audited: ControlPlane, vacant: Release) -> None:
    """With the CA of its client certificate configured, the API server is answered, and nobody without one."""
    release = vacant
    with release.released(replicas=1, clientCa={"bundle": audited.ca_file.read_text(encoding="utf-8")}):
        pod, *_ = release.kubelet.ready()
        context = ssl.create_default_context(cadata=release.secret()["ca-bundle.crt"].decode())
        context.check_hostname = False  # the certificate is for the balancer
        connection = http.client.HTTPSConnection(f"{pod.address}:{pod.ports[0]}", timeout=PATIENCE, context=context)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            answered(connection)
        connection.close()

        assert "are not allowed" in release.refusal({"foo.coreweave.cloud/bar": "true"})


def test_a_given_secret_is_followed(audited: ControlPlane, vacant: Release) -> None:
    """A pair in the operator's Secret is served, and another by another CA that takes its place, in the same Pods."""
    release = vacant
    give(audited, new_authority(datetime.now(UTC), name="first"))
    with release.released(replicas=2, certificates={"mode": "secret", "secretName": SECRET}):
        before = {each.name for each in release.kubelet.ready()}
        second = new_authority(datetime.now(UTC), name="second")
        give(audited, second)

        def followed() -> bool:
            entry = audited.get("validatingwebhookconfiguration", NAME)["webhooks"][0]
            served = [len(events(each, "certificate served")) for each in release.kubelet.ready()]
            if base64.b64decode(entry["clientConfig"]["caBundle"]) != second.cert_pem or min(served, default=0) < 2:
                raise NotYet(f"{served}, {entry['clientConfig']}")
            return True

        wait_for("the second pair, and its CA in the webhook configurations", followed)
        release.wait_until_asked()

        assert {each.name for each in release.kubelet.ready()} == before


def test_rendered_registration(audited: ControlPlane, vacant: Release) -> None:
    """Webhook configurations that the chart rendered get the caBundle from the service, and nothing else of it."""
    vacant.values = {"replicas": 1, "registration": RENDERED}
    vacant.install()
    wait_for("a refusal", lambda: "are not allowed" in vacant.refusal({"foo.coreweave.cloud/bar": "1"}))
    found = audited.get("validatingwebhookconfiguration", NAME, "--show-managed-fields")
    fields = {each["manager"]: each["fieldsV1"] for each in found["metadata"]["managedFields"]}
    vacant.install()

    assert "are not allowed" in vacant.refusal({"foo.coreweave.cloud/bar": "1"})
    vacant.uninstall()

    owned = {key for entry in fields["cks-admission"]["f:webhooks"].values() for key in entry}
    assert owned == {".", "f:clientConfig", "f:name"}
    assert vacant.refusal({"foo.coreweave.cloud/bar": "1"}) == ""


def test_without_access_to_the_cluster(audited: ControlPlane, vacant: Release, tmp_path: Path) -> None:
    """Without a token and without a right, policies come from mounted files, and change with them."""
    authority = new_authority(datetime.now(UTC), name="given")
    give(audited, authority)
    file = tmp_path / "load.yaml"
    file.write_text(load.POLICIES, encoding="utf-8")
    command = [str(COMMAND), "export", "webhook-configuration", "--policies", str(file)]
    exported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    values = {
        "replicas": 1,
        "cluster": {"access": False},
        "certificates": {"mode": "secret", "secretName": SECRET, "caBundle": authority.cert_pem.decode()},
        "registration": {**RENDERED, "configurations": exported},
    }
    release = vacant
    with release.released(**values):
        pod, *_ = release.kubelet.ready()
        changed = load.POLICIES.replace("Huge ones are not wanted.", "Too huge.")
        release.install(policies={"load.yaml": changed})
        wait_for("the other words", lambda: "Too huge." in release.refusal({"size": "huge"}))

        assert not (pod.root / "etc/cks-admission/serviceaccount").exists()


def answered(connection: http.client.HTTPConnection) -> int:
    """Send a call, and return the status that it is answered with."""
    connection.request("POST", "/validate", "{}")
    return connection.getresponse().status
