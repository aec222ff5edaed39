"""Jobs whose Pods belong in one domain, and the ways of saying so: annotations, or what Kubernetes has itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from cluster import placements, programs, workloads
from cluster.components import LASTS
from cluster.topologynodes import BACKEND, RACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.manifests import Manifest

Way = Literal["plain", "required", "preferred", "gate", "workload"]
"""plain: the scheduler is told nothing. required, preferred: Pod affinity of the gang to itself. gate: the
annotations; the service creates the Pods behind a gate, and opens it when all fit. workload: the same annotations, of
which it makes Kubernetes' own constraint, with GATES."""
WAYS: tuple[Way, ...] = get_args(Way)
_NEWER = programs.release() != "1.36"
GATES = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "WorkloadWithJob",
    *(() if _NEWER else ("GangScheduling",)),
)
APIS = (f"scheduling.k8s.io/{'v1beta1' if _NEWER else 'v1alpha2'}",)
"""What an API server has to serve for that."""

Level = Literal["rack", "superpod"]
# Superpods are numbered anew in each fabric: one is meant only with its fabric.
KEYS: Mapping[Level, tuple[str, ...]] = {"rack": (RACK,), "superpod": (f"{BACKEND}/superpod", f"{BACKEND}/fabric")}


def job(
    namespace: str, name: str, way: Way, *, pods: int, gpus: int = 8, level: Level = "rack", **spec: Any
) -> Manifest:
    """Return a Job of so many Pods, of which none ends by itself. spec: more of that of its Pods."""
    containers = workloads.gpus(gpus)
    labels = {"app": name, **LASTS}
    own: Manifest = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": containers, **spec}
    terms = [{"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key} for key in KEYS[level]]
    if way == "required":
        own["affinity"] = {"podAffinity": {placements.MUST: terms}}
    if way == "preferred":
        weighted = [{"weight": 100 // len(terms), "podAffinityTerm": term} for term in terms]
        own["affinity"] = {"podAffinity": {placements.MAY: weighted}}
    template = {"metadata": {"labels": labels}, "spec": own}
    mode = "Indexed" if way == "workload" else "NonIndexed"
    made = workloads.job(namespace, parallelism=pods, completions=pods, completionMode=mode, template=template)
    made["metadata"]["name"] = name
    return placements.annotated(made, level) if way in {"gate", "workload"} else made
