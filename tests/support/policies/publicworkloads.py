"""Workloads that break some of the public policies on Pods, as a real API server takes them."""

from __future__ import annotations

from typing import Any

from policies.objects.workload import BUILT_IN, Workload, table, workload

Json = dict[str, Any]
ROBOT = workload("example.com", "Robot", ["spec.body.template", "spec.arms[*].template"])
_KINDS = (
    ("apps", "Deployment"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("jobset.x-k8s.io", "JobSet"),
    ("kubeflow.org", "PyTorchJob"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
)
_TABLE = table(BUILT_IN)
ROWS: tuple[Workload, ...] = (*(_TABLE[kind] for kind in _KINDS), ROBOT)
_LABELS = {"app.kubernetes.io/name": "web", "team": "a"}
_GOOD = {
    "name": "main",
    "image": "registry.example.com/web:1.2",
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
    "livenessProbe": {"httpGet": {"port": 80}},
    "readinessProbe": {"httpGet": {"port": 80}},
}


def _template(labels: Json | None = None, container: Json | None = None, **spec: Any) -> Json:
    """A template with changes to the good one; None leaves a field out."""
    metadata = {"labels": _LABELS if labels is None else labels}
    fields = {key: value for key, value in {**_GOOD, **(container or {})}.items() if value is not None}
    return {"metadata": metadata, "spec": {"containers": [fields], **spec}}


TEMPLATES: dict[str, Json] = {
    "good": _template(enableServiceLinks=False, automountServiceAccountToken=False, serviceAccountName="own"),
    "host": _template(
        container={"ports": [{"containerPort": 80}]},
        hostNetwork=True,
        hostPID=True,
        volumes=[{"name": "root", "hostPath": {"path": "/"}}, {"name": "scratch"}],
        automountServiceAccountToken=False,
    ),
    "privileged": _template(
        container={"securityContext": {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}},
        initContainers=[{"name": "init", "image": "busybox:latest", "imagePullPolicy": "Never"}],
    ),
    "careless": _template(
        labels={"app.kubernetes.io/name": "web"},
        container={"image": "docker.io/web", "resources": {"requests": {"memory": "8Gi"}}},
        terminationGracePeriodSeconds=600,
        nodeSelector={"kubernetes.io/hostname": "a"},
        securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
    ),
    "unprobed": _template(container={"livenessProbe": None, "readinessProbe": None, "securityContext": None}),
}


def objects() -> list[tuple[Workload, str, Json]]:
    """One object of each kind for each template, with its name."""
    return [(row, name, _object(row, template)) for row in ROWS for name, template in TEMPLATES.items()]


def _object(row: Workload, template: Json) -> Json:
    never = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    specs: dict[str, Json] = {
        "Deployment": {"selector": {"matchLabels": {"app.kubernetes.io/name": "web"}}, "template": template},
        "Job": {"template": never},
        "CronJob": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": never}}},
        "JobSet": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template}}}]},
        "PyTorchJob": {"pytorchReplicaSpecs": {"Master": {"template": template}, "Server": {"template": never}}},
        "LeaderWorkerSet": {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATES["good"], "workerTemplate": template}},
        "Robot": {"body": {"template": TEMPLATES["good"]}, "arms": [{"template": never}, {"template": template}]},
    }
    version = "v1" if row.group in ("apps", "batch") else "v1alpha2" if row.kind == "JobSet" else "v1"
    return {
        "apiVersion": f"{row.group}/{version}",
        "kind": row.kind,
        "metadata": {"name": "web", "namespace": "public"},
        "spec": specs[row.kind],
    }
