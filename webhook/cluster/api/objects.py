"""The parts of Kubernetes objects that the service reads, and what it keeps. Everything else is skipped unparsed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from policies.engine.facts import Namespace, Node, Taint
from policies.topology.nodes.manifest import Amounts, allocatable
from policies.topology.topology import with_nvl_domain

T = TypeVar("T", bound="Object")
# Thousands of Nodes have the same, which is kept once.
_ALIKE: dict[Amounts, Amounts] = {}


class Metadata(Struct, rename="camel"):
    """An object's metadata."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class Object(Struct):
    """Any object."""

    metadata: Metadata


class WholeObject(Object):
    """An object with all its fields."""

    content: dict[str, Any]


class _NamespaceMetadata(Metadata, rename="camel", omit_defaults=True):
    generate_name: str = ""
    uid: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None


class _NamespaceSpec(Struct, omit_defaults=True):
    finalizers: list[str] | None = None


class _NamespaceStatus(Struct, omit_defaults=True):
    phase: str = ""
    conditions: list[dict[str, Any]] | None = None


class NamespaceObject(Object):
    """A Namespace as in `namespaceObject`: all fields except managedFields and ownerReferences.

    Source: CreateNamespaceObject in k8s.io/apiserver's pkg/admission/plugin/cel/condition.go.
    """

    metadata: _NamespaceMetadata
    spec: _NamespaceSpec = field(default_factory=_NamespaceSpec)
    status: _NamespaceStatus = field(default_factory=_NamespaceStatus)


class _TaintJson(Struct):
    key: str
    effect: str = ""
    value: str | None = None


class _NodeSpec(Struct):
    taints: list[_TaintJson] | None = None


class _NodeStatus(Struct):
    allocatable: dict[str, str] | None = None


class WatchedNode(Object):
    """A Node."""

    spec: _NodeSpec = field(default_factory=_NodeSpec)
    status: _NodeStatus = field(default_factory=_NodeStatus)


class PriorityClassObject(Object, rename="camel"):
    """A PriorityClass."""

    value: int = 0
    global_default: bool = False


class FollowedResource(Struct, Generic[T], frozen=True):
    """A kind of object to follow.

    decode: decodes one object. page: objects per list request. query: other parameters of each request, such as a
    fieldSelector. cached: whether lists come from the API server's watch cache, which is cheap for it, but as one
    answer, and perhaps some moments old. kind: what metrics call it; empty for its name.
    """

    name: str
    decode: Callable[[msgspec.Raw], T]
    page: int = 500
    query: tuple[tuple[str, str], ...] = ()
    cached: bool = False
    kind: str = ""


NAMESPACES = FollowedResource("namespaces", msgspec.json.Decoder(NamespaceObject).decode, cached=True)
# A Node lists up to 50 images and has at least 20 KB, so a page of 500 would need over 10 MB while it is read.
NODES = FollowedResource("nodes", msgspec.json.Decoder(WatchedNode).decode, page=100)
PRIORITY_CLASSES = FollowedResource("priorityclasses", msgspec.json.Decoder(PriorityClassObject).decode, cached=True)

_OBJECT = msgspec.json.Decoder(Object)
_CONTENT = msgspec.json.Decoder(dict[str, Any])


def whole(raw: msgspec.Raw) -> WholeObject:
    """An object with all its fields. Raises decoding errors."""
    return WholeObject(_OBJECT.decode(raw).metadata, _CONTENT.decode(raw))


def name_of(obj: Object) -> str:
    """The name, which identifies a cluster-scoped object."""
    return obj.metadata.name


def key_of(obj: Object) -> tuple[str, str]:
    """Namespace and name."""
    return obj.metadata.namespace, obj.metadata.name


def labels_of(obj: Object) -> dict[str, str]:
    """The labels. Their keys are interned, because every object has the same few keys."""
    return {sys.intern(key): value for key, value in (obj.metadata.labels or {}).items()}


def namespace_of(obj: NamespaceObject) -> Namespace:
    """The parts of a Namespace that expressions and selectors read, as JSON, which needs less memory than objects."""
    return Namespace(labels_of(obj), msgspec.json.encode(obj))


def node_of(obj: WatchedNode) -> Node:
    """The parts of a Node that rules read."""
    taints = tuple(Taint(sys.intern(taint.key), taint.effect, taint.value or "") for taint in obj.spec.taints or ())
    try:
        amounts = allocatable(obj.status.allocatable)
    except ValueError:  # a Node with a malformed amount has nothing for Pods
        amounts = ()
    return Node(obj.metadata.name, with_nvl_domain(labels_of(obj)), taints, _ALIKE.setdefault(amounts, amounts))
