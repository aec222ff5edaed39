"""What is decoded of Nodes and Pods for the placer; the rest is skipped unparsed."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from policies.engine.request import JsonObject
from policies.topology.annotation import TOPOLOGY
from policies.topology.nodes.manifest import NodeManifest, PodManifest
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


class _Container(Struct, rename="camel", omit_defaults=True):
    name: str = ""
    resources: dict[str, Any] | None = None
    ports: list[dict[str, Any]] | None = None
    restart_policy: str | None = None


class _PodSpec(Struct, rename="camel", omit_defaults=True):
    """What decides where a Pod fits."""

    node_name: str = ""
    scheduling_gates: list[dict[str, str]] | None = None
    affinity: dict[str, Any] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[dict[str, Any]] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: dict[str, Any] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    overhead: dict[str, Any] | None = None
    host_network: bool = False
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None


class _PodMetadata(Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class _PodStatus(Struct, rename="camel", omit_defaults=True):
    phase: str = ""
    conditions: list[dict[str, Any]] | None = None


class _Placed(Struct, omit_defaults=True):
    metadata: _PodMetadata
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)


_OBJECT = msgspec.json.Decoder(Object)
_NODE = msgspec.json.Decoder(NodeManifest)
_POD = msgspec.json.Decoder(PodManifest)
_PLACED = msgspec.json.Decoder(_Placed)


def _node(raw: msgspec.Raw) -> WatchedNode:
    return WatchedNode(_OBJECT.decode(raw).metadata, _NODE.decode(raw))


def _pod(raw: msgspec.Raw) -> WatchedPod:
    placed = msgspec.to_builtins(_PLACED.decode(raw)) if MENTION in bytes(raw) else None
    return WatchedPod(_OBJECT.decode(raw).metadata, _POD.decode(raw), placed)


# A Node lists up to 50 images and has at least 20 KB, as in webhook/cluster/api/objects.py.
NODES = FollowedResource("nodes", _node, page=100)
# A Pod that has failed takes no room, and is replaced.
PODS = FollowedResource("pods", _pod, page=100, query=(("fieldSelector", "status.phase!=Failed"),))
