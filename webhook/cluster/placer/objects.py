"""What is decoded of Nodes and Pods for the placer; the rest is skipped unparsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from policies.engine.request import JsonObject
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.placement import TOPOLOGY
from webhook.cluster.api.objects import FollowedResource, Object

MENTION = TOPOLOGY.encode()
"""What is in the bytes of every object with a placement."""


class WatchedNode(Object):
    """A Node."""

    manifest: NodeManifest


class WatchedPod(Object):
    """A Pod. placed: what the placer reads of one with a placement, as JSON; None for others."""

    manifest: PodManifest
    placed: JsonObject | None


_CONTAINER = dict.fromkeys(("name", "resources", "ports", "restartPolicy"))
# What is kept of a Pod with a placement, by field (None: all of it): what decides where the Pod fits, and whose it is.
_KEPT: Mapping[str, Any] = {
    "metadata": dict.fromkeys(
        (
            *("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels", "annotations"),
            "ownerReferences",
        )
    ),
    "spec": {
        "containers": _CONTAINER,
        "initContainers": _CONTAINER,
        **dict.fromkeys(
            (
                *("nodeName", "schedulingGates", "affinity", "nodeSelector", "tolerations", "resources", "overhead"),
                *("resourceClaims", "hostNetwork", "priority", "priorityClassName", "preemptionPolicy"),
            )
        ),
    },
    "status": dict.fromkeys(("phase", "conditions")),
}


_OBJECT = msgspec.json.Decoder(Object)
_NODE = msgspec.json.Decoder(NodeManifest)
_POD = msgspec.json.Decoder(PodManifest)


def _pod(raw: msgspec.Raw) -> WatchedPod:
    placed = _kept(msgspec.json.decode(raw), _KEPT) if MENTION in bytes(raw) else None
    return WatchedPod(_OBJECT.decode(raw).metadata, _POD.decode(raw), placed)


def _kept(value: Any, fields: Mapping[str, Any] | None) -> Any:
    if fields is None or value is None:
        return value
    if isinstance(value, list):
        return [_kept(item, fields) for item in value]
    return {name: _kept(value[name], below) for name, below in fields.items() if value.get(name) is not None}


# A Node lists up to 50 images and has at least 20 KB, as in webhook/cluster/api/objects.py.
NODES = FollowedResource("nodes", lambda raw: WatchedNode(_OBJECT.decode(raw).metadata, _NODE.decode(raw)), page=100)
# A Pod that has failed takes no room, and is replaced.
PODS = FollowedResource("pods", _pod, page=100, query=(("fieldSelector", "status.phase!=Failed"),))
