"""Objects as people apply them, and the exact text that kubectl prints about them because of the shipped packs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster import workloads

if TYPE_CHECKING:
    from cluster.manifests import Manifest

Labels = Mapping[str, str]
LABEL = "qos.coreweave.cloud/interruptable"
INTERRUPTABLE = {LABEL: "true"}


def _custom(api_version: str, kind: str, spec: Manifest) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": workloads.metadata("main"), "spec": spec}


def _pytorch_job(labels: Labels) -> Manifest:
    replicas = {"Master": {"replicas": 1, "template": workloads.template(labels)}}
    replicas["Worker"] = {"replicas": 7, "template": workloads.template(labels)}
    return _custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas})


def _job_set(labels: Labels) -> Manifest:
    jobs = [{"template": {"spec": {"template": workloads.template(each)}}} for each in ({}, labels)]
    return _custom("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def _stateful_set(labels: Labels) -> Manifest:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    claims = [{"metadata": workloads.metadata("data"), "spec": storage}]
    template = workloads.template(labels)
    return workloads.apps("StatefulSet", "", volumeClaimTemplates=claims, template=template)


def _database(labels: Labels) -> Manifest:
    return around("Deployment", labels, containers=[{"name": "main", "image": "registry.example.com/postgres:17"}])


def inference(labels: Labels, seconds: int) -> Manifest:
    """Return a Deployment on GPUs with a grace period in seconds."""
    return around("Deployment", labels, containers=workloads.gpus(8), terminationGracePeriodSeconds=seconds)


def _indexed_job(labels: Labels) -> Manifest:
    template = workloads.template(labels, restartPolicy="Never")
    return workloads.job("", completionMode="Indexed", completions=4, parallelism=4, template=template)


def _pod(labels: Labels) -> Manifest:
    return workloads.pod("", labels=labels, containers=[{"name": "main", "image": "postgres"}])


def around(kind: str, labels: Labels, **spec: Any) -> Manifest:
    """Return a workload of the group apps with labels in its template."""
    return workloads.apps(kind, "", template=workloads.template(labels, **spec))


@dataclass(frozen=True)
class Scenario:
    """An object, and what a policy says of it once it is labelled.

    A policy that ignores failures has an entry of its own, so that nothing is refused for its sake in an outage.
    """

    name: str
    made: Callable[[Labels], Manifest]
    policy: str
    message: str
    places: tuple[str, ...] = ()
    entry: str = "policies-ignore"

    @property
    def refusal(self) -> str:
        """All that kubectl prints."""
        return _refused(self.entry, _denial(self.policy, self.message, *self.places))


def _denial(policy: str, message: str, *places: str) -> str:
    denial = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {message}"
    return "\n  ".join([denial, *places])


def _refused(entry: str, *denials: str) -> str:
    webhook = f'admission webhook "{entry}.cks-admission.dev" denied the request'
    return f'Error from server (Forbidden): error when creating "STDIN": {webhook}: ' + "\n".join([*denials, ""])


SCENARIOS = [
    Scenario(
        "a PyTorchJob",
        _pytorch_job,
        "interruptable-training",
        "A PyTorchJob must not be interruptable: one evicted Pod stops the run. "
        f'Remove the label {LABEL}, or set it to "false".',
        tuple(f"spec.pytorchReplicaSpecs.{role}.template.metadata.labels[{LABEL}]" for role in ("Master", "Worker")),
    ),
    Scenario(
        "a JobSet",
        _job_set,
        "interruptable-training",
        "A JobSet must not be interruptable: one evicted Pod stops the run. "
        f'Remove the label {LABEL}, or set it to "false".',
        (f"spec.replicatedJobs[1].template.spec.template.metadata.labels[{LABEL}]",),
    ),
    Scenario(
        "an Indexed Job of several Pods",
        _indexed_job,
        "interruptable-training-indexed",
        "An Indexed Job of more than one Pod must not be interruptable: one evicted Pod stops the others. "
        f'Remove the label {LABEL} at spec.template.metadata.labels, set it to "false", '
        "or use a Job that is not Indexed.",
    ),
    Scenario(
        "a StatefulSet of one replica with claims",
        _stateful_set,
        "interruptable-database",
        "A StatefulSet of one replica with volume claims must not be interruptable: "
        f"nothing takes over while its Pod is evicted. Remove the label {LABEL} at spec.template.metadata.labels, "
        'set it to "false", or run more replicas.',
    ),
    Scenario(
        "a database by its image",
        _database,
        "interruptable-database",
        "A single-instance database must not be interruptable: nothing takes over while its Pod is evicted. "
        'spec.template.spec.containers[0].image is "registry.example.com/postgres:17". '
        f'Remove the label {LABEL}, set it to "false", or run more replicas.',
    ),
    Scenario(
        "inference that drains too long",
        partial(inference, seconds=400),
        "interruptable-drain",
        "What is interruptable must end within 300 s: spec.terminationGracePeriodSeconds is 400. "
        f"Lower it, or remove the label {LABEL}.",
        ("spec.template",),
    ),
    Scenario(
        "inference that is cut off",
        partial(inference, seconds=1),
        "interruptable-drain",
        "What is interruptable needs at least 5 s for the requests that it is answering: "
        f"spec.terminationGracePeriodSeconds is 1. Raise it, or remove the label {LABEL}.",
        ("spec.template",),
    ),
    Scenario(
        "a Pod",
        _pod,
        "interruptable-database",
        "A single-instance database must not be interruptable: nothing takes over while its Pod is evicted. "
        f'spec.containers[0].image is "postgres". Remove the label {LABEL}, set it to "false", or run more replicas.',
    ),
]

_RESERVED = {"key": "node.coreweave.cloud/reserved"}
_ALL_RESERVED = {**_RESERVED, "operator": "Exists"}
_KEYLESS = {"operator": "Exists"}
_LOCK = {"key": "sunk.coreweave.com/lock", "operator": "Exists"}
_TOLERATES = (
    "A toleration of node.coreweave.cloud/reserved with the operator Exists tolerates the reservations of everybody"
)
_DENIED_RESERVED = _denial(
    "reserved-toleration",
    f"{_TOLERATES}, control plane and broken Nodes included: spec.tolerations[0]. "
    "Use operator: Equal and the value of the taint on your own Nodes.",
    "spec.template",
)


def _denied_keyless(index: int) -> str:
    return _denial(
        "keyless-toleration",
        "A toleration with the operator Exists and no key tolerates every taint, of broken and of reserved Nodes too: "
        f"spec.tolerations[{index}]. Name the keys that are meant.",
        "spec.template",
    )


def _denied_lock(index: int) -> str:
    return _denial(
        "lock-toleration",
        "Only DaemonSets and NodeSets may tolerate sunk.coreweave.com/lock; a Slurm job cannot start while other "
        f"Pods stay on its Node: spec.tolerations[{index}]. "
        "Remove the toleration, or run this as a DaemonSet.",
        "spec.template",
    )


_WARNED_UNSET = (
    "Warning: reserved-toleration-unset: spec.template: Not checked whose reservation is tolerated: "
    "spec.tolerations[0] has the value "
    '"org-5678". Make sure that it is the taint of your own Nodes.\n'
)
_WARNED_KEYLESS = (
    "Warning: keyless-toleration-daemonset: spec.template: This DaemonSet tolerates every taint, "
    "of broken and of reserved Nodes too: "
    "spec.tolerations[0]. Name the keys that are meant.\n"
)
TOLERATIONS = [
    ("Deployment", [_ALL_RESERVED], _refused("policies-ignore", _DENIED_RESERVED)),
    ("Deployment", [{**_RESERVED, "value": "org-5678"}], _WARNED_UNSET),
    ("Deployment", [_KEYLESS], _refused("policies-ignore", _denied_keyless(0))),
    ("Deployment", [_LOCK], _refused("policies-ignore", _denied_lock(0))),
    (
        "Deployment",
        [_ALL_RESERVED, _KEYLESS, _LOCK],
        _refused("policies-ignore", _denied_keyless(1), _denied_lock(2), _DENIED_RESERVED),
    ),
    ("DaemonSet", [_ALL_RESERVED], _refused("policies-ignore", _DENIED_RESERVED)),
    ("DaemonSet", [{**_RESERVED, "value": "org-5678"}], _WARNED_UNSET),
    ("DaemonSet", [_KEYLESS], _WARNED_KEYLESS),
    ("DaemonSet", [_LOCK], ""),
    (
        "DaemonSet",
        [_ALL_RESERVED, _KEYLESS, _LOCK],
        _WARNED_KEYLESS.replace("[0]", "[1]") + _refused("policies-ignore", _DENIED_RESERVED),
    ),
]
