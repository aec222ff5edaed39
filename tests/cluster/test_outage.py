"""The service is killed: the cluster goes on, and nobody bypasses the guard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from support.service.servers import leader

from cluster import crds, manifests, workloads
from cluster.polling import NotYet
from webhook.cluster.api.client import connect
from webhook.cluster.replicas.checks import WaitingPods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.service import Service

NODE = "outage-1"
LABEL = "foo.coreweave.cloud/bar"
INTERRUPTABLE = {"qos.coreweave.cloud/interruptable": "true"}


@pytest.fixture(scope="module")
def outage(control_plane: ControlPlane, service: Service) -> Iterator[str]:
    """Make a labelled Node and Namespace, then kill the service for the length of this module."""
    control_plane.node(NODE, labels={"node.coreweave.cloud/state": "production"})
    name = "outage"
    control_plane.namespace(name, {"ns.coreweave.cloud/org": "org-1234"})
    service.kill()
    yield name
    service.start()
    control_plane.objects.delete("node", NODE)
    control_plane.objects.delete("namespace", name)


def test_kubelet_writes_node_and_pod_status(control_plane: ControlPlane, outage: str) -> None:
    """A kubelet's Node status, Lease and Pod status go on, on a Node that carries reserved labels."""
    kubelet = control_plane.kubelet(NODE)
    control_plane.apply(workloads.pod(outage, "status", INTERRUPTABLE, nodeName=NODE), check=True)
    condition = {"status": {"conditions": [{"type": "Outage", "status": "True"}]}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": workloads.metadata(NODE), **condition}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": workloads.metadata("status", outage), **condition}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NODE, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40},
    }

    # By direct writes: `kubectl patch` reads the subresource first, which a kubelet may not.
    direct = ("--server-side", "--force-conflicts")
    answers = [
        control_plane.apply(node, *direct, "--subresource=status", user=kubelet),
        control_plane.apply(pod, *direct, "--subresource=status", user=kubelet),
        control_plane.apply(lease, *direct, user=kubelet),
    ]

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 3


def test_pods_are_created(control_plane: ControlPlane, outage: str) -> None:
    """Ordinary and interruptable Pods are created, and a Deployment's controllers create theirs."""
    deployment = workloads.apps("Deployment", outage, template=workloads.template(INTERRUPTABLE))
    job = workloads.job(outage, template=workloads.template(INTERRUPTABLE, restartPolicy="Never"))

    answer = control_plane.apply(
        [workloads.pod(outage, "ordinary"), workloads.pod(outage, "interruptable", INTERRUPTABLE), deployment, job]
    )

    assert (answer.returncode, answer.stderr) == (0, "")

    def created() -> set[str]:
        pods = control_plane.get("pods", "-n", outage, "-l", "app=main")["items"]
        owners = {owner["kind"] for pod in pods for owner in pod["metadata"]["ownerReferences"]}
        if owners != {"ReplicaSet", "Job"}:
            raise NotYet(f"{owners}")
        return owners

    control_plane.wait_for("the controllers' Pods", created)


def test_exempt_requesters_change_labels(control_plane: ControlPlane, outage: str) -> None:
    """Reserved labels are still written by those who may: administrators, kubelets at home, kube-system's accounts."""
    system = control_plane.service_account("kube-system", "labeller", role="cluster-admin")
    answers = [
        control_plane.kubectl("label", "--overwrite", "namespace", outage, f"{LABEL}=admin", user="admin"),
        control_plane.kubectl(
            "label", "--overwrite", "node", NODE, f"{LABEL}=kubelet", user=control_plane.kubelet(NODE)
        ),
        control_plane.kubectl("label", "--overwrite", "node", NODE, f"{LABEL}=system", user=system),
    ]

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 3


def test_labelled_objects_are_updated_and_deleted(control_plane: ControlPlane, outage: str) -> None:
    """Alice labels her Namespace with keys of her own, and deletes what carries a reserved label."""
    control_plane.objects.apply(workloads.config_map(outage, "labelled", {LABEL: "1"}))

    updated = control_plane.kubectl("label", "namespace", outage, "--overwrite", "example.org/team=b")
    deleted = control_plane.kubectl("delete", "configmap", "labelled", "-n", outage)

    assert [(answer.returncode, answer.stderr) for answer in (updated, deleted)] == [(0, "")] * 2


def test_connecting_and_evicting_go_on(control_plane: ControlPlane, outage: str) -> None:
    """Neither exec nor eviction, nor a scale, waits for the service."""
    control_plane.apply(workloads.pod(outage, "evicted", INTERRUPTABLE), check=True)
    control_plane.apply(workloads.apps("StatefulSet", outage, template=workloads.template(INTERRUPTABLE)), check=True)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": workloads.metadata("evicted", outage)}
    path = f"/api/v1/namespaces/{outage}/pods/evicted/eviction"

    connected = control_plane.kubectl("exec", "evicted", "-n", outage, "--", "true")
    scaled = control_plane.kubectl("scale", "statefulset/main", "-n", outage, "--replicas=2")
    evicted = control_plane.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(eviction))

    assert "webhook" not in connected.stderr  # no kubelet answers on a fake Node
    assert (scaled.returncode, scaled.stderr, evicted.returncode, evicted.stderr) == (0, "", 0, "")


def test_odd_custom_resource_is_written(control_plane: ControlPlane, outage: str) -> None:
    """A custom resource of a shape that no condition expects is created and updated."""
    definition = manifests.custom_resource("Odd", "example.org", "v1")
    crds.install(control_plane, definition)
    odd = {"apiVersion": "example.org/v1", "kind": "Odd", "metadata": workloads.metadata("odd", outage), "spec": "text"}

    answers = [control_plane.apply(each) for each in (odd, {**odd, "spec": [{"template": 1}], "template": None})]
    crds.remove(control_plane, definition)

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 2


@pytest.mark.parametrize("kind", ["node", "configmap", "template"])
def test_new_reserved_label_is_refused(control_plane: ControlPlane, outage: str, kind: str) -> None:
    """Alice's new reserved label is refused by the API server itself, whose failure policy is Fail."""
    if kind == "node":
        answer = control_plane.kubectl("label", "node", NODE, "new.coreweave.cloud/x=1")
    elif kind == "configmap":
        answer = control_plane.apply(workloads.config_map(outage, labels={LABEL: "1"}))
    else:
        template = workloads.template({LABEL: "1"})
        answer = control_plane.apply(workloads.apps("StatefulSet", outage, template=template))

    entry = "cluster-labels" if kind == "node" else "labels"
    assert answer.returncode == 1
    assert f'failed calling webhook "{entry}.cks-admission.dev"' in answer.stderr


async def test_pods_that_wait_are_told(control_plane: ControlPlane, service: Service, outage: str) -> None:
    """A Pod that got no toleration, and for which there is no Node, has an Event that says so; others have none."""
    tolerations = [{"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}]
    nowhere = {"nodeSelector": {"nowhere": "to-be-found"}}
    control_plane.apply(
        [
            workloads.pod(outage, "lacking", **nowhere),
            workloads.pod(outage, "tolerating", tolerations=tolerations, **nowhere),
            workloads.pod(outage, "placed", nodeName=NODE),
        ],
        check=True,
    )

    def unschedulable() -> bool:
        pods = [control_plane.get("pod", name, "-n", outage) for name in ("lacking", "tolerating")]
        reasons = [{each.get("reason") for each in pod["status"].get("conditions", [])} for pod in pods]
        if not all("Unschedulable" in told for told in reasons):
            raise NotYet(f"{reasons}")
        return True

    control_plane.wait_for("the scheduler to give up", unschedulable)
    account = yaml.safe_load(service.config.read_text(encoding="utf-8"))["cluster"]["kubeconfig"]
    api = await connect(account, in_cluster=False)
    try:
        await WaitingPods(leader(api)).look()
    finally:
        await api.close()

    events = control_plane.get("events", "-n", outage)["items"]
    told = [event["involvedObject"]["name"] for event in events if event["reason"] == "AdmittedUnchanged"]
    assert told == ["lacking"]


def test_service_comes_back(control_plane: ControlPlane, service: Service, outage: str) -> None:
    """Started again on its port, it answers without anybody's help."""
    service.start()

    answer = control_plane.apply(workloads.config_map(outage, labels={LABEL: "1"}))

    assert "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed." in answer.stderr
    service.kill()
