"""A small cluster for the placer: Nodes, workloads with their Pods, and a scheduler that binds what is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import jsonpatch
import msgspec

from policies.engine.facts import StaticFacts
from policies.objects.workload import BUILT_IN, table
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.placement import GATE
from policies.topology.placer.placer import Look, Placer
from policies.topology.placer.state import Options
from policies.topology.topology import BUILT_IN as TOPOLOGIES
from policies.topology.topology import Catalog, Topology

GPU = "nvidia.com/gpu"
BACKEND, RACK, HOST = "backend.coreweave.cloud/", "node.coreweave.cloud/rack", "kubernetes.io/hostname"
NOW = 1_800_000_000.0
Json = dict[str, Any]


def moment(seconds: float) -> str:
    """A time as the API server writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def required(level: str, topology: str = "coreweave", preferred: str = "") -> dict[str, str]:
    """The annotations of a placement."""
    more = {"kai.scheduler/topology-preferred-placement": preferred} if preferred else {}
    own = {"kai.scheduler/topology-required-placement": level} if level else {}
    return {"kai.scheduler/topology": topology, **own, **more}


class World:
    """A placer with the objects of a cluster. now: seconds since the epoch."""

    def __init__(self, topologies: Iterable[Topology] = (), *, patience: float = 900.0) -> None:
        self.now = NOW
        facts = StaticFacts(as_of=date(2026, 1, 1), classes={"": 0, "high": 100, "low": -100})
        self.options = Options(table(BUILT_IN), facts, patience=patience)
        self.catalog = Catalog((*topologies, *TOPOLOGIES))
        self.pods: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.roots: dict[tuple[str, str], Json] = {}
        self.placer = self.restarted()

    def restarted(self) -> Placer:
        """Another placer, which has listed the same objects."""
        placer = Placer(self.options)
        placer.put_catalog(self.catalog)
        for obj in self.nodes.values():
            placer.put_node(msgspec.convert(obj, NodeManifest))
        for obj in self.roots.values():
            placer.put_root(obj)
        for obj in self.pods.values():
            placer.put_pod(msgspec.convert(obj, PodManifest), obj)
        self.placer = placer
        return placer

    def node(self, name: str, labels: Mapping[str, str], gpus: int = 8, **more: Any) -> None:
        """A Node. more: of its manifest."""
        obj = {
            "metadata": {"name": name, "labels": {HOST: name, **labels}},
            "status": {"allocatable": {GPU: str(gpus), "cpu": "64", "pods": "110"}},
            **more,
        }
        self.nodes[name] = obj
        self.placer.put_node(msgspec.convert(obj, NodeManifest))

    def racks(self, *racks: str, nodes: int = 4, gpus: int = 8) -> None:
        """Racks of Nodes; a rack is written as fabric, superpod and number: `f1/2/12`."""
        for place in racks:
            fabric, superpod, rack = place.split("/")
            for number in range(nodes):
                labels = {f"{BACKEND}fabric": fabric, f"{BACKEND}superpod": superpod, RACK: rack}
                self.node(f"{fabric}-{superpod}-{rack}-{number}", labels, gpus)

    def root(self, api: str, kind: str, name: str, spec: Json, **metadata: Any) -> Json:
        """A workload."""
        own = {"name": name, "namespace": "team", "uid": f"{kind}-{name}", **metadata}
        obj = {"apiVersion": api, "kind": kind, "metadata": own, "spec": spec}
        self.roots[kind, name] = obj
        self.placer.put_root(obj)
        return obj

    def job(
        self,
        name: str,
        pods: int,
        annotations: Mapping[str, str],
        *,
        gpus: int = 8,
        exist: int | None = None,
        **spec: Any,
    ) -> None:
        """An Indexed Job with its Pods, or the first of them."""
        template = self.template(annotations, gpus)
        counts = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
        self.root("batch/v1", "Job", name, {**counts, "template": template})
        for index in range(pods if exist is None else exist):
            labels = {"batch.kubernetes.io/job-completion-index": str(index)}
            self.pod(f"{name}-{index}", ("batch/v1", "Job", name), template, labels, **spec)

    def template(self, annotations: Mapping[str, str], gpus: int = 8, **spec: Any) -> Json:
        """A pod template."""
        resources = {"limits": {GPU: str(gpus)}, "requests": {"cpu": "1"}}
        container = {"name": "main", "image": "train", "resources": resources}
        return {"metadata": {"annotations": dict(annotations)}, "spec": {"containers": [container], **spec}}

    def pod(
        self,
        name: str,
        owner: tuple[str, str, str] | None,
        template: Json,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A gated Pod of a template. owner: apiVersion, kind and name of its controller."""
        api, kind, of = owner or ("", "", "")
        reference = {"apiVersion": api, "kind": kind, "name": of, "uid": f"{kind}-{of}", "controller": True}
        metadata = {
            **template["metadata"], "name": name, "namespace": "team", "uid": f"uid-{name}-{self.now}",
            "creationTimestamp": moment(self.now), "labels": dict(labels or {}),
            **({"ownerReferences": [reference]} if owner else {}),
        }  # fmt: skip
        body = {"schedulingGates": [{"name": GATE}], **template["spec"], **spec}
        self.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body, "status": {"phase": "Pending"}}
        )

    def put(self, pod: Json) -> None:
        """Take a Pod as it is now."""
        self.pods[pod["metadata"]["name"]] = pod
        self.placer.put_pod(msgspec.convert(pod, PodManifest), pod)

    def delete(self, *names: str) -> None:
        """Delete Pods."""
        for name in names:
            del self.pods[name]
            self.placer.remove_pod("team", name)

    def finish(self, *names: str) -> None:
        """Let Pods succeed."""
        for name in names:
            self.put({**self.pods[name], "status": {"phase": "Succeeded"}})

    def bind(self, name: str, node: str) -> None:
        """Bind a Pod to a Node."""
        pod = self.pods[name]
        self.put({**pod, "spec": {**pod["spec"], "nodeName": node, "schedulingGates": []}})

    def look(self, *, bind: bool = True) -> Look:
        """A look whose openings are carried out. bind: whether the Pods are bound to their packed Nodes at once."""
        look = self.placer.look(self.now)
        for opening in look.openings:
            self.put(jsonpatch.apply_patch(self.pods[opening.name], opening.patch))
        for opening in look.openings if bind else ():
            if wishes := self.wishes(opening.name):
                self.bind(opening.name, wishes[-1])
        return look

    def wishes(self, name: str) -> list[str]:
        """The values that a Pod's preferences name."""
        affinity = self.pods[name]["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        return [value for term in terms for one in term["preference"]["matchExpressions"] for value in one["values"]]

    def needs(self, name: str) -> list[dict[str, list[str]]]:
        """The required terms of a Pod, each as values by key."""
        affinity = self.pods[name]["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
        return [
            {one["key"]: one.get("values", [one["operator"]]) for one in term["matchExpressions"]} for term in terms
        ]

    def nodes_of(self, gang: str) -> list[str]:
        """The Nodes of a gang's Pods, by the index of the Pod."""
        own = sorted((n for n in self.pods if n.rpartition("-")[0] == gang), key=lambda n: int(n.rpartition("-")[2]))
        return [self.pods[name]["spec"].get("nodeName", "") for name in own]
