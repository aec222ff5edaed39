"""Jobs whose Pods belong in one domain, and the ways of saying so: annotations, or what Kubernetes has itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from cluster import placements, programs, workloads
from cluster.components import LASTS
from cluster.topologynodes import BACKEND, RACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    if way in _POD_AFFINITY:
        own["affinity"] = _POD_AFFINITY[way]([_term(name, key) for key in KEYS[level]])
    template = {"metadata": {"labels": labels}, "spec": own}
    mode = "Indexed" if way == "workload" else "NonIndexed"
    made = workloads.job(namespace, parallelism=pods, completions=pods, completionMode=mode, template=template)
    made["metadata"]["name"] = name
    return placements.annotated(made, level) if way in {"gate", "workload"} else made


def _term(name: str, key: str) -> Manifest:
    return {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key}


def _required(terms: Sequence[Manifest]) -> Manifest:
    return {"podAffinity": {placements.MUST: list(terms)}}


def _preferred(terms: Sequence[Manifest]) -> Manifest:
    weighted = [{"weight": 100 // len(terms), "podAffinityTerm": term} for term in terms]
    return {"podAffinity": {placements.MAY: weighted}}


_POD_AFFINITY = {"required": _required, "preferred": _preferred}
