"""The leaders of a LeaderWorkerSet's replicas, as its controller creates them: a replica is placed with its leader.

Source: LeaderWorkerSet's controller, for the labels and annotations of its Pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.request import JsonObject, mapping
from policies.topology.gang.membership import LEADER_WORKER_SET

_PREFIX = "leaderworkerset.sigs.k8s.io/"


def leaders(obj: JsonObject, namespace: str) -> Iterator[JsonObject]:
    """The leaders' Pods of a LeaderWorkerSet; none for other kinds."""
    group, _, _ = obj["apiVersion"].rpartition("/")
    if (group, obj["kind"]) != LEADER_WORKER_SET:
        return
    spec, name = mapping(obj, "spec"), str(mapping(obj, "metadata").get("name") or "")
    templates = mapping(spec, "leaderWorkerTemplate")
    template = mapping(templates, "leaderTemplate") or mapping(templates, "workerTemplate")
    metadata = mapping(template, "metadata")
    replicas, size = (value if isinstance(value, int) else 1 for value in (spec.get("replicas"), templates.get("size")))
    for index in range(replicas):
        marks = {"name": name, "worker-index": "0", "group-index": str(index), "group-key": f"{name}-{index}"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": namespace,
                "name": f"{name}-{index}",
                "labels": {**mapping(metadata, "labels"), **{f"{_PREFIX}{key}": mark for key, mark in marks.items()}},
                "annotations": {**mapping(metadata, "annotations"), f"{_PREFIX}size": str(size)},
            },
            "spec": mapping(template, "spec"),
        }
