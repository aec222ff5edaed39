"""The control plane fulfils the assumptions of the tests: real answers, real controllers, no hidden privileges."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster.components import IDENTITIES
from cluster.polling import NotYet
from cluster.programs import CONTROL_PLANE, judged_as

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

COMPONENTS = tuple(name for name in CONTROL_PLANE if name != "kubectl")

_NODES = ("controlplane-gpu-1", "controlplane-gpu-2")
_LABEL = {"test": "controlplane"}


@pytest.fixture(scope="module")
def gpu_nodes(control_plane: ControlPlane) -> Iterator[Sequence[str]]:
    """Two fake GPU Nodes, which other tests do not see: they carry a label to select them by, and go at the end."""
    for name in _NODES:
        control_plane.node(name, labels=_LABEL, capacity={"nvidia.com/gpu": 8})
    yield _NODES
    control_plane.objects.delete("node", *_NODES)


def workload(kind: str, namespace: str, gpus: int = 0, **spec: object) -> Manifest:
    """Return a workload whose Pods only fit on the Nodes of this module."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "example.test/main:1", "resources": resources}
    template: Manifest = {
        "metadata": {"labels": {"app": "main"}},
        "spec": {"nodeSelector": _LABEL, "containers": [container]},
    }
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": "main"}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "main", "namespace": namespace},
        "spec": {**spec, "template": template},
    }


def whoami(control_plane: ControlPlane, user: str | Path) -> tuple[str, list[str]]:
    """Return the user and the groups that the API server sees."""
    answer = control_plane.kubectl("auth", "whoami", "-o", "json", user=user, check=True)
    info = json.loads(answer.stdout)["status"]["userInfo"]
    return info["username"], info["groups"]


def wait_for_pods(control_plane: ControlPlane, namespace: str, phase: str, count: int) -> list[str]:
    """Wait until a Namespace has exactly `count` Pods and all are in `phase`; return their Nodes, sorted."""

    def settled() -> tuple[list[str]]:
        pods = control_plane.get("pods", "-n", namespace)["items"]
        seen = [(pod["metadata"]["name"], pod["status"].get("phase")) for pod in pods]
        if [phase] * count != [item[1] for item in seen]:
            raise NotYet(f"{seen}")
        return (sorted(pod["spec"]["nodeName"] for pod in pods),)

    return control_plane.wait_for(f"{count} Pods in {namespace} to be {phase}", settled)[0]


def test_versions_are_the_pinned_ones(control_plane: ControlPlane) -> None:
    """Client and server say the pinned version of Kubernetes, and Dynamic Resource Allocation is served as v1."""
    versions = json.loads(control_plane.kubectl("version", "-o", "json", check=True).stdout)
    served = control_plane.kubectl("api-versions", check=True).stdout.split()

    assert {key: versions[key]["gitVersion"] for key in ("clientVersion", "serverVersion")} == {
        "clientVersion": "v1.36.3",
        "serverVersion": f"v{judged_as().proven}",
    }
    assert {"admissionregistration.k8s.io/v1", "resource.k8s.io/v1"} <= set(served)


def test_alice_is_cluster_admin_by_rbac_alone(control_plane: ControlPlane) -> None:
    """Alice may do everything and is not in system:masters, so that a refusal can only come from admission."""
    assert whoami(control_plane, "alice") == ("alice", ["system:authenticated"])
    assert control_plane.kubectl("auth", "can-i", "*", "*", "--all-namespaces").stdout == "yes\n"


def test_admin_is_the_only_one_in_system_masters(control_plane: ControlPlane) -> None:
    """Setting up goes through a user of its own, who is in system:masters."""
    assert whoami(control_plane, "admin") == ("admin", ["system:masters", "system:authenticated"])


@pytest.mark.parametrize("component", IDENTITIES)
def test_components_have_identities_of_their_own(control_plane: ControlPlane, component: str) -> None:
    """The credentials that a running component was started with are its own user's, without system:masters."""
    user, groups = IDENTITIES[component]
    kubeconfig = control_plane.kubeconfig(component)

    assert f"--kubeconfig={kubeconfig}" in control_plane.component(component).command
    assert whoami(control_plane, kubeconfig) == (user, [*groups, "system:authenticated"])


def test_every_client_component_is_listed(control_plane: ControlPlane) -> None:
    """No component that talks to the API server is missing from the list of identities."""
    started = {
        name for name in COMPONENTS if any("--kubeconfig=" in word for word in control_plane.component(name).command)
    }

    assert started == set(IDENTITIES)


def test_controllers_act_as_their_own_service_accounts(control_plane: ControlPlane) -> None:
    """The controller-manager's user may not create Pods itself: what creates them is a controller's service account."""
    answers = {
        user: control_plane.kubectl("auth", "can-i", "create", "pods", "-n", "default", *impersonated, user=user).stdout
        for user, impersonated in (
            ("kube-controller-manager", []),
            ("admin", ["--as=system:serviceaccount:kube-system:replicaset-controller"]),
        )
    }

    assert answers == {"kube-controller-manager": "no\n", "admin": "yes\n"}


def test_kubelet_labels_its_own_node(control_plane: ControlPlane, gpu_nodes: Sequence[str]) -> None:
    """A kubelet is known by the name of its Node and may label it."""
    kubelet = control_plane.kubelet(gpu_nodes[0])

    assert whoami(control_plane, kubelet) == (
        f"system:node:{gpu_nodes[0]}",
        ["system:nodes", "system:authenticated"],
    )
    answer = control_plane.kubectl("label", "node", gpu_nodes[0], "example.org/by=kubelet", user=kubelet)
    assert (answer.returncode, answer.stdout) == (0, f"node/{gpu_nodes[0]} labeled\n")


@pytest.mark.parametrize(
    ("target", "label", "message"),
    [
        pytest.param(
            1,
            "example.org/by",
            'nodes "controlplane-gpu-2" is forbidden: node "controlplane-gpu-1" is not allowed to modify node '
            '"controlplane-gpu-2"',
            id="another Node",
        ),
        pytest.param(
            0,
            "node-restriction.kubernetes.io/by",
            'nodes "controlplane-gpu-1" is forbidden: is not allowed to modify labels: '
            "node-restriction.kubernetes.io/by",
            id="a label of NodeRestriction's own",
        ),
    ],
)
def test_node_restriction_is_on(
    control_plane: ControlPlane, gpu_nodes: Sequence[str], target: int, label: str, message: str
) -> None:
    """A kubelet may neither write another Node nor the labels that NodeRestriction keeps from it."""
    kubelet = control_plane.kubelet(gpu_nodes[0])
    change = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": gpu_nodes[target], "labels": {label: "kubelet"}}}

    answer = control_plane.apply(change, "--server-side", user=kubelet)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert message in answer.stderr


def test_node_authorizer_is_on(control_plane: ControlPlane, gpu_nodes: Sequence[str]) -> None:
    """A kubelet cannot even read another Node."""
    answer = control_plane.kubectl("get", "node", gpu_nodes[1], user=control_plane.kubelet(gpu_nodes[0]))

    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"node '{gpu_nodes[0]}' cannot read '{gpu_nodes[1]}', only its own Node object" in answer.stderr


def test_deployment_runs_on_gpu_nodes(control_plane: ControlPlane, gpu_nodes: Sequence[str], namespace: str) -> None:
    """The real scheduler counts GPUs: of three Pods with eight each, two Nodes run two and one stays pending."""
    control_plane.apply(workload("Deployment", namespace, gpus=8, replicas=2), check=True)

    assert wait_for_pods(control_plane, namespace, "Running", 2) == list(gpu_nodes)

    control_plane.kubectl("scale", "deployment/main", "--replicas=3", "-n", namespace, check=True)

    def refused() -> list[str]:
        pods = control_plane.get("pods", "-n", namespace, "--field-selector=status.phase=Pending")["items"]
        return [condition["reason"] for pod in pods for condition in pod["status"].get("conditions", [])]

    assert control_plane.wait_for("the scheduler to refuse the third Pod", refused) == ["Unschedulable"]


def test_daemon_set_runs_on_each_node_and_goes(
    control_plane: ControlPlane, gpu_nodes: Sequence[str], namespace: str
) -> None:
    """A DaemonSet gets a Pod on each Node, and when it is deleted its Pods end as a kubelet would end them."""
    control_plane.apply(workload("DaemonSet", namespace), check=True)
    assert wait_for_pods(control_plane, namespace, "Running", len(gpu_nodes)) == list(gpu_nodes)

    control_plane.kubectl("delete", "daemonset/main", "-n", namespace, "--cascade=foreground", check=True)

    assert wait_for_pods(control_plane, namespace, "Running", 0) == []


def test_job_completes(control_plane: ControlPlane, gpu_nodes: Sequence[str], namespace: str) -> None:
    """A Job's Pods end with success, and its controller counts them."""
    control_plane.apply(workload("Job", namespace, completions=2, parallelism=2), check=True)

    def complete() -> dict[str, Any]:
        status: dict[str, Any] = control_plane.get("job/main", "-n", namespace)["status"]
        if not any(item["type"] == "Complete" and item["status"] == "True" for item in status.get("conditions", [])):
            raise NotYet(f"{status}")
        return status

    assert control_plane.wait_for("the Job to complete", complete)["succeeded"] == 2
    assert set(wait_for_pods(control_plane, namespace, "Succeeded", 2)) <= set(gpu_nodes)


@pytest.mark.usefixtures("gpu_nodes")
def test_garbage_collector_works(control_plane: ControlPlane, namespace: str) -> None:
    """With a Deployment its ReplicaSet and its Pods go, which only the garbage collector does."""
    control_plane.apply(workload("Deployment", namespace, replicas=2), check=True)
    wait_for_pods(control_plane, namespace, "Running", 2)

    control_plane.kubectl("delete", "deployment/main", "-n", namespace, check=True)

    def gone() -> bool:
        left = control_plane.get("replicasets,pods", "-n", namespace)["items"]
        if left:
            raise NotYet(f"left: {[(item['kind'], item['metadata']['name']) for item in left]}")
        return True

    assert control_plane.wait_for("ReplicaSets and Pods to go", gone)


def test_service_account_token_works(control_plane: ControlPlane, namespace: str) -> None:
    """A token of a service account says who it is, from the start of its Namespace; a role is all that it may do."""
    powerless = control_plane.service_account(namespace, "default")
    viewer = control_plane.service_account(namespace, "viewer", role="view")

    assert whoami(control_plane, powerless) == (
        f"system:serviceaccount:{namespace}:default",
        ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
    )
    questions = [(account, verb) for account in (powerless, viewer) for verb in ("list", "delete")]
    answers = [control_plane.kubectl("auth", "can-i", verb, "pods", user=account).stdout for account, verb in questions]
    assert answers == ["no\n", "no\n", "yes\n", "no\n"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the sockets of a process from /proc")
def test_everything_listens_on_loopback_only(control_plane: ControlPlane) -> None:
    """No component can be reached from another machine."""
    listening = {name: listening_addresses(control_plane.component(name).pid) for name in COMPONENTS}

    assert listening == {name: {ipaddress.ip_address("127.0.0.1")} for name in COMPONENTS}


def listening_addresses(pid: int) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses at which a process listens."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            sockets.add(str(file.readlink()))
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    found = [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    # Four bytes each, in the order of this machine.
    words = [[int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)] for text in found]
    return {ipaddress.ip_address(b"".join(address)) for address in words}
