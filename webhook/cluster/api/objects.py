"""The parts of Kubernetes objects that the service reads, and what it keeps. Everything else is skipped unparsed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
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


DEVICE_GROUP = "resource.k8s.io"
# The versions with the structure that is read here, newest first. Older ones were never on by default.
DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")


class _ClassName(Struct, rename="camel"):
    device_class_name: str = ""


class _DeviceRequest(_ClassName, rename="camel"):
    """A request for devices. v1beta1 has the class here if there is one alternative, later versions have `exactly`."""

    exactly: _ClassName | None = None
    first_available: list[_ClassName] | None = None

    def classes(self) -> Iterator[str]:
        for place in (self, self.exactly, *(self.first_available or ())):
            if place is not None and place.device_class_name:
                yield place.device_class_name


class _Devices(Struct):
    requests: list[_DeviceRequest] | None = None


class ClaimSpec(Struct):
    """The spec of a ResourceClaim."""

    devices: _Devices | None = None

    def classes(self) -> frozenset[str] | None:
        """The device classes; None if there are none."""
        requests = self.devices.requests if self.devices else None
        return frozenset(name for request in requests or () for name in request.classes()) or None


class ClaimObject(Object):
    """A ResourceClaim."""

    spec: ClaimSpec = field(default_factory=ClaimSpec)


class _TemplateSpec(Struct):
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class ClaimTemplateObject(Object):
    """A ResourceClaimTemplate."""

    spec: _TemplateSpec = field(default_factory=_TemplateSpec)


class _AnnotatedMetadata(Metadata, rename="camel"):
    uid: str = ""
    annotations: dict[str, str] | None = None


class ConfigMapObject(Object):
    """A ConfigMap, without its binary data."""

    metadata: _AnnotatedMetadata
    data: dict[str, str] | None = None


class _ClassSpec(Struct, rename="camel"):
    extended_resource_name: str | None = None


class DeviceClassObject(Object):
    """A DeviceClass."""

    spec: _ClassSpec = field(default_factory=_ClassSpec)


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
CLAIMS = FollowedResource("resourceclaims", msgspec.json.Decoder(ClaimObject).decode)
CLAIM_TEMPLATES = FollowedResource("resourceclaimtemplates", msgspec.json.Decoder(ClaimTemplateObject).decode)
DEVICE_CLASSES = FollowedResource("deviceclasses", msgspec.json.Decoder(DeviceClassObject).decode, cached=True)

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
