"""What is decoded of Nodes and Pods for the inventory; the rest is skipped unparsed."""

from __future__ import annotations

import sys
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from policies.engine.request import JsonObject
from policies.topology.affinity import RECORD
from policies.topology.gang.gang import GangKey
from policies.topology.gang.membership import membership
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from webhook.cluster.api.objects import FollowedResource, Metadata, Object

M = TypeVar("M")
_RECORD = RECORD.encode()


class Manifest(Object, Generic[M]):
    """An object with what the inventory reads of it."""

    content: M


class _PodMetadata(Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class _PodSpec(Struct, rename="camel"):
    node_name: str = ""
    affinity: dict[str, Any] | None = None  # tells where the Pod was placed, or with None that it was not


class _PodStatus(Struct, omit_defaults=True):
    phase: str = ""
    conditions: list[dict[str, Any]] | None = None


class _PodSummary(Struct):
    metadata: _PodMetadata
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class Pod(Object):
    """A Pod: what it takes of its Node, and its JSON, whole if it has a record, else what tells of its gang."""

    manifest: PodManifest
    content: JsonObject

    @property
    def has_record(self) -> bool:
        """Whether its placement is on record."""
        return RECORD in (self.content["metadata"].get("annotations") or {})


_OBJECT = msgspec.json.Decoder(Object)
_NODE = msgspec.json.Decoder(NodeManifest)
_POD = msgspec.json.Decoder(PodManifest)
_SUMMARY = msgspec.json.Decoder(_PodSummary)
_CONTENT = msgspec.json.Decoder(dict[str, Any])


def _node(raw: msgspec.Raw) -> Manifest[NodeManifest]:
    return Manifest(_OBJECT.decode(raw).metadata, _NODE.decode(raw))


def _pod(raw: msgspec.Raw) -> Pod:
    manifest = _POD.decode(raw)
    summary = _SUMMARY.decode(raw)
    own = summary.metadata
    # There are so many Pods that each of their names is to be kept once.
    own.name, own.namespace = manifest.metadata.name, sys.intern(manifest.metadata.namespace)
    metadata = Metadata(own.name, own.namespace, own.resource_version)
    content = _CONTENT.decode(raw) if _RECORD in bytes(raw) else msgspec.to_builtins(summary)
    return Pod(metadata, manifest, {"apiVersion": "v1", "kind": "Pod", **content})


# A Node lists up to 50 images and has at least 20 KB, as in webhook/cluster/api/objects.py.
NODES = FollowedResource("nodes", _node, page=100)
# A Pod that has failed takes no room, and is replaced. One that has succeeded takes none either, but needs no other.
# A page of 100 takes some 10 ms, in which the process answers nobody.
PODS = FollowedResource("pods", _pod, page=100, query=(("fieldSelector", "status.phase!=Failed"),))


def gang_of(pod: PodManifest) -> GangKey | None:
    """The gang of a Pod."""
    member = membership({"metadata": msgspec.to_builtins(pod.metadata)})
    return None if member is None else member.key
