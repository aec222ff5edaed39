"""What only the cloud may take away, flaws of the network, and facts for policies, on a real API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cluster import topologynodes
from cluster.polling import NotYet
from cluster.service import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

NODE, THEIRS, FACTS = "guard-1", "guard-hpc", "topologies"
BACKEND = "backend.coreweave.cloud/"
LABELS = {
    f"{BACKEND}fabric": "guarded",
    f"{BACKEND}flavor": "infiniband",
    f"{BACKEND}superpod": "71",
    f"{BACKEND}leafgroup": "71",
    f"{BACKEND}speed.current": "200G",
    f"{BACKEND}speed.expected": "400G",
}
TAINTS = [
    {"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"},
    {"key": "sunk.coreweave.com/lock", "value": "true", "effect": "NoExecute"},
]
REFUSED = 'admission webhook "cluster-guard.cks-admission.dev" denied the request: '
POLICY = Path(__file__).parents[2] / "policies" / "examples" / "placement-capacity" / "policy.yaml"


@pytest.fixture(scope="module", autouse=True)
def guarded(control_plane: ControlPlane, service: Service) -> Iterator[None]:
    """Make a slow Node and a Namespace of the control plane; the guard refuses, and says where to read on."""
    control_plane.node(NODE, LABELS, TAINTS, {"nvidia.com/gpu": 8})
    control_plane.namespace(THEIRS, {"ns.coreweave.cloud/org": "control-plane"})
    with service.configured(
        guard={"namespaces": "deny", "taints": "deny"},
        topology={**topologynodes.SETTINGS, "facts": FACTS},
        help={"url": "https://docs.example.org/{page}/#{code}"},
    ):
        yield
    control_plane.objects.delete("node", NODE)


def test_taints_stay(control_plane: ControlPlane) -> None:
    """A person who may write Nodes takes neither taint away, and reads why; other edits of the Node go through."""
    unlocked = control_plane.kubectl("taint", "node", NODE, "sunk.coreweave.com/lock-")
    cordoned = control_plane.kubectl("cordon", NODE)
    uncordoned = control_plane.kubectl("uncordon", NODE)

    assert unlocked.stderr == (
        f"Error from server (Forbidden): {REFUSED}Taints that keep Pods off Nodes must stay.\n"
        f'  spec.taints: sunk.coreweave.com/lock=true:NoExecute must stay on Node "{NODE}".\n'
        "SUNK removes it when the Slurm job ends: cancel the job, or have guard.exempt name SUNK's account.\n"
        "Read on: https://docs.example.org/guard/#taint\n"
    )
    assert [(answer.returncode, answer.stderr) for answer in (cordoned, uncordoned)] == [(0, "")] * 2


def test_namespaces_of_the_control_plane_stay(control_plane: ControlPlane) -> None:
    """They are neither edited nor deleted by a person; an administrator may do both."""
    told = f"{REFUSED}Namespaces of the control plane must be left as they are.\n"
    asked = (
        "Ask the provider of the cluster, or have an administrator add you to guard.exempt.\n"
        "Read on: https://docs.example.org/guard/#namespace\n"
    )

    edited = control_plane.kubectl("annotate", "namespace", THEIRS, "team=a")
    deleted = control_plane.kubectl("delete", "namespace", THEIRS, "--wait=false")
    allowed = control_plane.kubectl("annotate", "namespace", THEIRS, "team=a", user="admin")

    changed = f'  metadata.annotations: must not change: Namespace "{THEIRS}" belongs to the control plane.\n'
    ends = "all that runs in it ends, and the cluster loses what it does."
    gone = f'  Namespace "{THEIRS}" belongs to the control plane: {ends}\n'
    assert edited.stderr == f"Error from server (Forbidden): {told}{changed}{asked}"
    assert deleted.stderr == f"Error from server (Forbidden): {told}{gone}{asked}"
    assert (allowed.returncode, allowed.stderr) == (0, "")


def test_what_is_warned_of(control_plane: ControlPlane, service: Service) -> None:
    """Who would delete such a Namespace reads what ends; who creates Pods there reads whose it is."""
    with service.configured(guard={"namespaces": "warn"}):
        deleted = control_plane.kubectl("delete", "namespace", THEIRS, "--dry-run=server")
    made = control_plane.kubectl("run", "own", "-n", THEIRS, "--image=example.test/main:1", "--dry-run=server")

    assert deleted.stderr == (
        f'Warning: Namespace "{THEIRS}" belongs to the control plane: all that runs in it ends, and the cluster loses '
        "what it does. Ask the provider of the cluster, or have an administrator add you to guard.exempt. "
        "guard.namespaces: deny would refuse it.\nWarning: Read on: https://docs.example.org/guard/#namespace\n"
    )
    assert made.stderr == (
        f'Warning: metadata.namespace: "{THEIRS}" belongs to the control plane: the cloud may remove what it does not '
        "know there. Use a Namespace of your own.\n"
        "Warning: Read on: https://docs.example.org/guard/#workload\n"
    )


def _job(namespace: str, pods: int, placement: str) -> Manifest:
    container = {"name": "main", "image": "example.test/main:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    placed = {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-required-placement": placement}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"train-{pods}", "namespace": namespace, "annotations": placed},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def test_a_placement_on_a_slow_network_is_warned_of(
    control_plane: ControlPlane, service: Service, namespace: str
) -> None:
    """Who names a superpod reads what is wrong with its Nodes, and the metric counts them."""
    answer = control_plane.apply(_job(namespace, 1, "fabric=guarded,superpod=71"))

    def counted() -> bool:
        if not service.metric('cks_admission_fabric_flawed_nodes{kind="slow"}'):
            raise NotYet("no Node with a slow link")
        return True

    control_plane.wait_for("the Node to be counted", counted)
    assert (
        'Warning: required "fabric=guarded,superpod=71": the network has flaws at 1 of 1 Nodes: '
        f"{NODE} (speed is 200G, expected 400G); topology doctor lists them\n"
    ) in answer.stderr


def test_kube_apiserver_reads_the_facts(control_plane: ControlPlane, namespace: str) -> None:
    """The example policy, judged by kube-apiserver itself, refuses what no superpod holds by the service's numbers."""

    def facts() -> dict[str, str]:
        found = control_plane.objects.find("configmap", FACTS, "-n", NAMESPACE).get("data") or {}
        if "coreweave.superpod.gpus" not in found:
            raise NotYet(f"{found}")
        return dict(found)

    data = control_plane.wait_for("the facts to be published", facts)
    policy, binding = yaml.safe_load_all(POLICY.read_text(encoding="utf-8"))
    only_here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    written = [policy, {**binding, "spec": {**binding["spec"], "matchResources": only_here}}]
    control_plane.objects.apply(written)

    def refusal() -> Any:
        answer = control_plane.apply(_job(namespace, 1000, "superpod"))
        if answer.returncode == 0:
            control_plane.objects.delete_all("jobs", namespace=namespace)
            raise NotYet(answer.stdout)
        return answer

    try:
        refused = control_plane.wait_for("kube-apiserver to know the policy", refusal)
        small = control_plane.apply(_job(namespace, 1, "superpod"))
    finally:
        control_plane.objects.delete_manifests(written)

    largest = data["coreweave.superpod.gpus"]
    assert (
        "ValidatingAdmissionPolicy 'placement-capacity' with binding 'placement-capacity' denied request: "
        f"No domain of coreweave.superpod holds the 8000 GPUs of its 1000 Pods: the largest has {largest}. "
        "Require a level above, or ask for less."
    ) in refused.stderr
    assert small.returncode == 0
    assert "fabric=guarded,superpod=71 nodes=1 gpus=8 usable=0" in data["coreweave.superpod"]


def test_a_dead_service_locks_nobody_out(control_plane: ControlPlane, service: Service) -> None:
    """While no replica answers, taints can be taken away: people must be able to repair Nodes."""
    service.kill()
    try:
        answer = control_plane.kubectl("taint", "node", NODE, "is_gpu-")
    finally:
        service.start()

    assert (answer.returncode, answer.stdout) == (0, f"node/{NODE} untainted\n")
