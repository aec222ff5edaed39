"""Tolerations: those that Pods without GPUs get, and those that DaemonSets need on Nodes of SUNK, which is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cluster import workloads
from cluster.polling import NotYet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane

pytestmark = pytest.mark.usefixtures("service")

CPU_TOLERATION = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
CPU_NODE, GPU_NODE = "tolerations-cpu", "tolerations-gpu"
HERE = {"test": "tolerations"}


@pytest.fixture(scope="module", autouse=True)
def nodes(control_plane: ControlPlane) -> Iterator[None]:
    """Make a CPU Node and a GPU Node, tainted as the cloud taints them."""
    control_plane.node(CPU_NODE, HERE, [{"key": "is_cpu_compute", "effect": "NoSchedule"}])
    taint = {"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}
    control_plane.node(GPU_NODE, HERE, [taint], {"nvidia.com/gpu": 8})
    yield
    control_plane.objects.delete("node", CPU_NODE, GPU_NODE)


def own(tolerations: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the tolerations but for those that Kubernetes itself gives every Pod."""
    return [item for item in tolerations or [] if not item["key"].startswith("node.kubernetes.io/")]


def placed(control_plane: ControlPlane, namespace: str, name: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the Node and the tolerations of a Pod, once it runs."""
    spec = control_plane.wait_until(
        f"Pod {name} to run",
        lambda: control_plane.get("pod", name, "-n", namespace),
        lambda pod: pod["status"].get("phase") == "Running",
    )["spec"]
    return spec["nodeName"], own(spec["tolerations"])


def test_cpu_pod_reaches_a_cpu_node(control_plane: ControlPlane, namespace: str) -> None:
    """A Pod without a GPU gets the toleration and the scheduler puts it on the tainted CPU Node."""
    control_plane.apply(workloads.pod(namespace, nodeSelector=HERE), check=True)

    assert placed(control_plane, namespace, "main") == (CPU_NODE, [CPU_TOLERATION])


def test_gpu_pod_does_not_get_it(control_plane: ControlPlane, namespace: str) -> None:
    """A Pod with a GPU is left as written and lands on the GPU Node."""
    control_plane.apply(workloads.pod(namespace, nodeSelector=HERE, containers=workloads.gpus(1)), check=True)

    assert placed(control_plane, namespace, "main") == (GPU_NODE, [])


def test_plain_daemon_set_reaches_cpu_nodes(control_plane: ControlPlane, namespace: str) -> None:
    """The DaemonSet controller chooses Nodes by its template, so a plain one gets the toleration there."""
    template = workloads.template(nodeSelector=HERE)
    control_plane.apply(workloads.apps("DaemonSet", namespace, template=template), check=True)

    def where() -> list[str]:
        pods = control_plane.get("pods", "-n", namespace)["items"]
        nodes = sorted(pod["spec"].get("nodeName", "") for pod in pods if pod["status"].get("phase") == "Running")
        if len(nodes) < 2:
            raise NotYet(f"{nodes}")
        return nodes

    assert control_plane.wait_for("a Pod on both Nodes", where) == [CPU_NODE, GPU_NODE]
    stored = control_plane.get("daemonset", "main", "-n", namespace)["spec"]["template"]["spec"]["tolerations"]
    assert stored == [CPU_TOLERATION]


def test_applying_twice_changes_nothing(control_plane: ControlPlane, namespace: str) -> None:
    """The second kubectl apply says unchanged, for what was added is not the user's."""
    manifests = [workloads.pod(namespace), workloads.apps("DaemonSet", namespace, template=workloads.template())]
    control_plane.apply(manifests, check=True)

    again = control_plane.apply(manifests)

    assert (again.stdout, again.stderr) == ("pod/main unchanged\ndaemonset.apps/main unchanged\n", "")


def test_empty_and_null_lists_are_patched(control_plane: ControlPlane, namespace: str) -> None:
    """A list of tolerations that was sent empty or null gets its item all the same."""
    for name, sent in (("empty", []), ("null", None)):
        answer = control_plane.apply(workloads.pod(namespace, name, tolerations=sent), "--validate=false")
        assert (answer.returncode, answer.stderr) == (0, "")
        assert own(control_plane.get("pod", name, "-n", namespace)["spec"]["tolerations"]) == [CPU_TOLERATION]


def test_dry_run_leaves_no_trace(control_plane: ControlPlane, namespace: str) -> None:
    """A server-side dry run shows the toleration and stores nothing."""
    answer = control_plane.apply(workloads.pod(namespace), "--dry-run=server", "-o", "json", check=True)

    assert own(json.loads(answer.stdout)["spec"]["tolerations"]) == [CPU_TOLERATION]
    assert control_plane.get("pods,events", "-n", namespace)["items"] == []


def test_device_claim_counts_as_a_gpu(control_plane: ControlPlane, namespace: str) -> None:
    """A Pod that claims a device of a GPU class is a GPU Pod, once the watch has brought the claim."""
    devices = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    claim = {**kind, "metadata": workloads.metadata("gpu", namespace), "spec": {"spec": devices}}
    control_plane.apply(claim, check=True)
    pod = workloads.pod(namespace, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])

    def left_alone() -> bool:
        answer = control_plane.objects.applied(pod, user="alice", dry_run=True)
        if found := own(answer.body["spec"]["tolerations"]):
            raise NotYet(f"{found}")
        return True

    control_plane.wait_for("the service to know the claim template", left_alone)


HASH = "5f3a"
PATH = "spec.template.spec.tolerations"


@pytest.fixture(scope="module")
def sunk_node(control_plane: ControlPlane) -> Iterator[None]:
    """Make a Node that SUNK has locked, and wait until the service has seen it."""
    taints = [
        {"key": "sunk.coreweave.com/lock", "value": "true", "effect": "NoExecute"},
        {"key": "node.coreweave.cloud/reserved", "value": HASH, "effect": "NoSchedule"},
    ]
    control_plane.node("sunk-1", {"pool": "sunk"}, taints, {"nvidia.com/gpu": 8})

    control_plane.wait_until(
        "the service to know the SUNK Node",
        lambda: control_plane.objects.applied(workloads.apps("DaemonSet", "default"), user="alice", dry_run=True),
        lambda answer: any("taints of SUNK Nodes" in warning for warning in answer.warnings),
    )
    yield
    control_plane.objects.delete("node", "sunk-1")


# It comes last, for its Node makes every plain DaemonSet one that is warned of.
@pytest.mark.usefixtures("sunk_node")
def test_missing_tolerations_are_warned_of(control_plane: ControlPlane, namespace: str) -> None:
    """A plain DaemonSet is admitted, with one warning that names each taint; the hash is read off the Nodes."""
    answer = control_plane.apply(workloads.apps("DaemonSet", namespace))

    missing = f"sunk.coreweave.com/lock=true, is_gpu and node.coreweave.cloud/reserved={HASH}"
    remedy = "Add a toleration for each: operator Equal with its value, Exists without one."
    expected = f"Warning: {PATH}: none for {missing}, taints of SUNK Nodes. {remedy}\n"
    assert (answer.returncode, answer.stderr) == (0, expected)
