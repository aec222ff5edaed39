"""Reads the workloads that Nodes or the cluster may need to come up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.engine.request import JsonObject, mapping
from webhook.cluster.inspection import reads
from webhook.doctor.observation import Component
from webhook.registration import outage

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

_PLURALS = {"DaemonSet": "daemonsets", "Deployment": "deployments"}
_PRIORITIES = ("system-node-critical", "system-cluster-critical")


async def read(api: ApiClient) -> list[Component]:
    """DaemonSets and Deployments in the Nodes' network or with a priority of the system. Raises ClusterError."""
    return [
        component(kind, workload)
        for kind, plural in _PLURALS.items()
        for workload in await reads.several(api, f"/apis/apps/v1/{plural}")
        if _is_of_the_system(mapping(mapping(mapping(workload, "spec"), "template"), "spec"))
    ]


def component(kind: str, workload: JsonObject) -> Component:
    """A workload, with the request that creates one of its Pods."""
    metadata, template = mapping(workload, "metadata"), mapping(mapping(workload, "spec"), "template")
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    pod = {**mapping(template, "metadata"), "name": name, "namespace": namespace}
    return Component(
        kind,
        namespace,
        name,
        outage.written("CREATE", ("", "pods"), outage.CONTROLLER, pod, mapping(template, "spec"), kind="Pod"),
    )


def _is_of_the_system(spec: JsonObject) -> bool:
    return bool(spec.get("hostNetwork")) or spec.get("priorityClassName") in _PRIORITIES
