"""Objects with a label at one place each: everywhere the guard looks for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cluster import workloads
from cluster.test_copied_metadata import KEY, native

if TYPE_CHECKING:
    from cluster.manifests import Manifest

# So that no Pods come of what is written.
_STILL: dict[str, Manifest] = {
    "DaemonSet": {"updateStrategy": {"type": "OnDelete"}},
    "CronJob": {"suspend": True},
    "Job": {"suspend": True},
}
_SCALED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")


def places(namespace: str, key: str) -> dict[str, Manifest]:
    """The objects by their place, each with the key. Names are still to be given."""
    labels = {key: "true"}
    jobs = {"replicatedJobs": [{"name": "main", "template": {"spec": {"template": workloads.template(labels)}}}]}
    own: dict[str, Manifest] = {
        "ConfigMap": workloads.config_map(namespace, labels=labels),
        "Pod": workloads.pod(namespace, labels=labels, schedulerName="nobody"),
        "Deployment's own": workloads.apps("Deployment", namespace, labels),
        "Namespace": {"apiVersion": "v1", "kind": "Namespace", "metadata": workloads.metadata("main", labels=labels)},
        "Node": {"apiVersion": "v1", "kind": "Node", "metadata": workloads.metadata("main", labels=labels)},
        "HorizontalPodAutoscaler": {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": workloads.metadata("main", namespace, labels),
            "spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}},
        },
        "JobSet": {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": workloads.metadata("main", namespace),
            "spec": jobs,
        },
    }
    copied = {
        name: json.loads(json.dumps(manifest).replace(KEY, key)) for name, (manifest, _) in native(namespace).items()
    }
    return {name: _still(manifest) for name, manifest in {**own, **copied}.items()}


def _still(manifest: Manifest) -> Manifest:
    kind = manifest["kind"]
    spec = {**_STILL.get(kind, {}), **({"replicas": 0} if kind in _SCALED else {})}
    return {**manifest, "spec": {**manifest["spec"], **spec}} if spec else manifest
