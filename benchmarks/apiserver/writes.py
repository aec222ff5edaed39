"""The writes that are measured, as requests of HTTP. All are dry runs, so each finds the cluster as the one before.

A dry run passes admission, defaults and validation like any other write, and ends before etcd.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml
from cluster import manifests
from cluster.controlplane import ControlPlane

from benchmarks.bodies import POD
from benchmarks.load import Exchange

NAMESPACE = "inference"
NODE = "bench-node"
USER = "alice"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json"

Json = dict[str, Any]


class Write(NamedTuple):
    """A request to the API server. kubelet: whether the Node's kubelet sends it, not a user."""

    name: str
    method: str
    path: str
    content_type: str
    body: Json
    kubelet: bool = False

    def exchange(self, port: int) -> Exchange:
        """The request as bytes, whose answer is a success."""
        content = msgspec.json.encode(self.body)
        head = (
            f"{self.method} {self.path}?dryRun=All HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return Exchange(head.encode() + content, lambda answer: answer.startswith(b"HTTP/1.1 20"))


def writes(cluster: ControlPlane) -> list[Write]:
    """Make what the writes refer to, and return the writes: kubelets' first, then users'."""
    cluster.namespace(NAMESPACE)
    cluster.objects.apply([*manifests.LASTING, *_surroundings()])
    lease = cluster.objects.get("lease", NODE, "-n", "kube-node-lease", "--show-managed-fields")
    node, pod = f"/api/v1/nodes/{NODE}/status", yaml.safe_load(POD.read_text(encoding="utf-8"))
    # The service judges the Pods of a Deployment too, which policies of the API server's own do not.
    core, apps = f"/api/v1/namespaces/{NAMESPACE}", "/apis/apps/v1/namespaces/default"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"
    return [
        Write("Lease update", "PUT", leases, JSON, lease, kubelet=True),
        Write("Node status", "PATCH", node, STRATEGIC, {"status": {"conditions": _conditions("2")}}, kubelet=True),
        Write("ConfigMap create", "POST", f"{core}/configmaps", JSON, _config_map()),
        Write("Deployment create", "POST", f"{apps}/deployments", JSON, _deployment()),
        Write("CPU Pod create", "POST", f"{core}/pods", JSON, pod),
        Write("GPU Pod create", "POST", f"{core}/pods", JSON, _on_gpus(pod)),
        Write("gang's Pod create", "POST", f"{core}/pods", JSON, _of_a_gang(_on_gpus(pod))),
    ]


def _surroundings() -> Iterator[Json]:
    account = {"name": "embeddings", "namespace": NAMESPACE}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    yield {**priority, "metadata": {"name": "production-high"}}
    reserved = {f"backend.coreweave.cloud/label-{number}": str(number) for number in range(20)}
    rack = {f"backend.coreweave.cloud/{level}": "1" for level in ("fabric", "superpod", "leafgroup")}
    metadata = {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, **rack, **reserved}}
    images = [{"names": [f"registry.example.org/image-{n}:1"], "sizeBytes": n} for n in range(50)]
    status = {"conditions": _conditions("1"), "images": images}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    yield {**lease, "metadata": {"name": NODE, "namespace": "kube-node-lease"}}


def _conditions(second: str) -> list[Json]:
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    heard = f"2026-01-01T00:00:0{second}Z"
    return [{"type": kind, "status": "True", "lastHeartbeatTime": heard} for kind in kinds]


def _config_map() -> Json:
    metadata = {"name": "settings", "labels": {"app.kubernetes.io/name": "embeddings", "example.org/team": "search"}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"settings.yaml": "key: value\n" * 90},
    }


def _deployment() -> Json:
    """A Deployment as most are: one container, with a probe, requests and limits."""
    labels = {"app.kubernetes.io/name": "embeddings", "example.org/team": "search"}
    resources = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    container = {
        "name": "server",
        "image": "registry.example.org/embeddings:1",
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}},
        "resources": resources,
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "embeddings", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _on_gpus(pod: Json) -> Json:
    changed = copy.deepcopy(pod)
    for amounts in ("requests", "limits"):
        changed["spec"]["containers"][0].setdefault("resources", {}).setdefault(amounts, {})["nvidia.com/gpu"] = "8"
    return changed


def _of_a_gang(pod: Json) -> Json:
    """The Pod with a required placement: the service gives it a gate."""
    changed = copy.deepcopy(pod)
    annotations = changed["metadata"].setdefault("annotations", {})
    annotations |= {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-required-placement": "superpod"}
    return changed
