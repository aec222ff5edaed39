"""Workloads with topology annotations for the Nodes of `topologynodes`, and their expected placement."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from cluster import workloads
from cluster.polling import NotYet
from cluster.release import rolled_out
from cluster.topologynodes import HERE, TOLERATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest

TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
GATED, UNSCHEDULABLE = "SchedulingGated", "Unschedulable"
MUST = "requiredDuringSchedulingIgnoredDuringExecution"
# Pods that select such Nodes stay pending, so that a Job of them does not end.
NOWHERE: dict[str, Any] = {"nodeSelector": {**HERE, "example.org/none": "true"}}
MAY = "preferredDuringSchedulingIgnoredDuringExecution"


def asking(required: str = "", preferred: str = "", topology: str = "coreweave") -> dict[str, str]:
    """Return the annotations that say so; an empty text is left out."""
    written = {TOPOLOGY: topology, REQUIRED: required, PREFERRED: preferred}
    return {key: value for key, value in written.items() if value}


def annotated(manifest: Manifest, required: str = "", preferred: str = "", topology: str = "coreweave") -> Manifest:
    """Return a copy of an object or a template with annotations that say so."""
    found = copy.deepcopy(manifest)
    found["metadata"].setdefault("annotations", {}).update(asking(required, preferred, topology))
    return found


def template(app: str = "main", gpus: int = 1, **spec: Any) -> Manifest:
    """Return a template of Pods that only run on the Nodes made for this, with so many GPUs each."""
    containers = workloads.gpus(gpus) if gpus else copy.deepcopy(workloads.POD_SPEC["containers"])
    whole = {"nodeSelector": dict(HERE), "tolerations": [dict(TOLERATION)], "containers": containers, **spec}
    return {"metadata": {"labels": {"app": app}}, "spec": whole}


def pod(namespace: str, name: str = "main", **spec: Any) -> Manifest:
    """Return a Pod of such a template."""
    found = template(name, **spec)
    found["metadata"] |= {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", **found}


def deployment(namespace: str, name: str = "main", replicas: int = 0, **spec: Any) -> Manifest:
    """Return a Deployment of such a template; without replicas nothing but its ReplicaSets comes of it."""
    whole = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, **spec)}
    metadata = workloads.metadata(name, namespace)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": whole}


def job(namespace: str, name: str = "main", *, suspend: bool = False, pods: int = 1, **spec: Any) -> Manifest:
    """Return a Job of such a template."""
    made = template(name, restartPolicy="Never", **spec)
    whole: Manifest = {"suspend": suspend, "parallelism": pods, "completions": pods, "template": made}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": workloads.metadata(name, namespace), "spec": whole}


def one_of(key: str, *values: str) -> Manifest:
    """Return the expression that a label has one of these values."""
    return {"key": key, "operator": "In", "values": list(values)}


def exists(key: str) -> Manifest:
    """Return the expression that a label is there."""
    return {"key": key, "operator": "Exists"}


def required(*terms: Sequence[Manifest]) -> Manifest:
    """Return the affinity that requires one of these terms, each a list of expressions."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
    return {"nodeAffinity": {MUST: selector}}


def preferring(*expressions: Manifest, weight: int = 100) -> Manifest:
    """Return a preferred term of these expressions."""
    return {"weight": weight, "preference": {"matchExpressions": list(expressions)}}


def one_per_node(app: str) -> Manifest:
    """Return the affinity that keeps Pods of an app on different Nodes."""
    selector = {"matchLabels": {"app": app}}
    return {"podAntiAffinity": {MUST: [{"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}]}}


def scheduled(control_plane: ControlPlane, namespace: str, app: str, pods: int, *, pending: int = 0) -> list[str]:
    """Wait until the scheduler has looked at all Pods of an app; return the Nodes of those that it placed, sorted.

    pending: as many find no Node. Of others it may say so as well, before it has heard of a Node, and thinks again.
    """

    def decided() -> tuple[list[str]]:
        found = control_plane.get("pods", "-n", namespace, "-l", f"app={app}")["items"]
        seen = {each["metadata"]["name"]: _decision(each) for each in found}
        placed = sorted(node for node in seen.values() if node != UNSCHEDULABLE)
        if len(seen) != pods or not all(seen.values()) or len(placed) < pods - pending:
            raise NotYet(f"{seen}")
        return (placed,)

    return control_plane.wait_for(f"{pods} Pods of {app} to be looked at", decided)[0]


def gated(control_plane: ControlPlane, namespace: str, app: str, pods: int) -> None:
    """Wait until so many Pods of an app are there, and all of them wait behind a gate, without a Node."""

    def waiting() -> bool:
        found = control_plane.get("pods", "-n", namespace, "-l", f"app={app}")["items"]
        seen = {each["metadata"]["name"]: condition(each) for each in found if not each["spec"].get("nodeName")}
        if len(found) != pods or list(seen.values()) != [GATED] * pods:
            raise NotYet(f"{len(found)} Pods, of which wait {seen}")
        return True

    control_plane.wait_for(f"{pods} Pods of {app} behind a gate", waiting)


def event(control_plane: ControlPlane, namespace: str, name: str, reason: str, part: str = "") -> str:
    """Wait for an Event on an object whose message has a part; return the last such message."""

    def told() -> str:
        found = control_plane.get("events", "-n", namespace, f"--field-selector=involvedObject.name={name}")["items"]
        said = [each["message"] for each in found if each["reason"] == reason and part in each["message"]]
        if not said:
            raise NotYet(str([(each["reason"], each["message"]) for each in found]))
        return str(said[-1])

    return control_plane.wait_for(f"the Event {reason} on {name}", told)


def rolled(control_plane: ControlPlane, namespace: str, name: str = "main") -> list[tuple[str, Manifest]]:
    """Wait until a Deployment has what it wants; return image and annotations of its ReplicaSets' templates.

    The oldest is the first. Raises AssertionError where the controller made one again since it found it changed.
    """
    status = control_plane.wait_until(
        f"the roll-out of {name}",
        lambda: control_plane.get("deployment", name, "-n", namespace),
        rolled_out,
    )["status"]
    assert "collisionCount" not in status, status
    sets = control_plane.get("replicasets", "-n", namespace, "-l", f"app={name}")["items"]
    sets.sort(key=lambda each: int(each["metadata"]["annotations"]["deployment.kubernetes.io/revision"]))
    templates = [each["spec"]["template"] for each in sets]
    return [(each["spec"]["containers"][0]["image"], each["metadata"].get("annotations", {})) for each in templates]


def answer_of(completed: Completed) -> tuple[int, str]:
    """Return what matters of a command's answer: whether it succeeded, and what stands on stderr."""
    return completed.returncode, completed.stderr


def refusal_of(completed: Completed) -> str:
    """Return what stands on stderr from the refusal on, which warnings may precede."""
    return "".join(completed.stderr.partition("Error from server")[1:])


CREATING = 'error when creating "STDIN": '


def denied(*lines: str, doing: str = "", entry: str = "policies-ignore") -> str:
    """Return what kubectl prints of a refusal. doing: what kubectl says that it was doing."""
    who = f'admission webhook "{entry}.cks-admission.dev" denied the request'
    told = "\n".join(lines)
    return f"Error from server (Forbidden): {doing}{who}: {told}\n"


def fixed(kind: str, changed: str) -> str:
    """Return what kubectl prints where a placement that is fixed was changed: an annotation, what it is and was."""
    summary = f"The placement of a {kind} is fixed when it is created."
    return denied(summary, f"  metadata.annotations[{changed}", f"Delete the {kind} and create it again.")


def condition(found: Manifest) -> str:
    """Why a Pod has no Node; nothing where that is not said yet."""
    conditions = {each["type"]: each.get("reason", "") for each in found["status"].get("conditions", [])}
    return conditions.get("PodScheduled") or ""


def _decision(found: Manifest) -> str:
    """The Node of a Pod, `Unschedulable`, or nothing yet."""
    refused = condition(found) == UNSCHEDULABLE  # another reason is a failure, after which it tries again
    return str(found["spec"].get("nodeName") or (UNSCHEDULABLE if refused else ""))
