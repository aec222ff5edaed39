"""The parts of Kubernetes objects that are read here, and what of them is kept. Everything else is skipped unparsed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Generic, TypeVar

from msgspec import Struct, field

from policies.facts import Node, Taint

T = TypeVar("T", bound="Object")

# Asks for an object's metadata alone: https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
# Servers that cannot do so send all of it, which does as well.
_METADATA = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
METADATA = _METADATA.format("PartialObjectMetadata")
METADATA_LIST = _METADATA.format("PartialObjectMetadataList")


class Metadata(Struct, rename="camel"):
    """An object's metadata."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class Object(Struct):
    """Any object."""

    metadata: Metadata


class _TaintJson(Struct):
    key: str
    effect: str = ""
    value: str | None = None


class _NodeSpec(Struct):
    taints: list[_TaintJson] | None = None


class NodeObject(Object):
    """A Node."""

    spec: _NodeSpec = field(default_factory=_NodeSpec)


class _ClassName(Struct, rename="camel"):
    device_class_name: str = ""


class _DeviceRequest(_ClassName, rename="camel"):
    """A request for devices. v1beta1 names the class of the only alternative here, later versions in `exactly`."""

    exactly: _ClassName | None = None
    first_available: list[_ClassName] | None = None

    def classes(self) -> Iterator[str]:
        for place in (self, self.exactly, *(self.first_available or ())):
            if place is not None and place.device_class_name:
                yield place.device_class_name


class _Devices(Struct):
    requests: list[_DeviceRequest] | None = None


class ClaimSpec(Struct):
    """What a ResourceClaim asks for."""

    devices: _Devices | None = None

    def classes(self) -> frozenset[str] | None:
        """The device classes, None for none."""
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


class _ClassSpec(Struct, rename="camel"):
    extended_resource_name: str | None = None


class DeviceClassObject(Object):
    """A DeviceClass."""

    spec: _ClassSpec = field(default_factory=_ClassSpec)


class Resource(Struct, Generic[T], frozen=True):
    """A kind of object to follow.

    page: objects per list request. metadata_only: whether its metadata is all that is asked for.
    """

    name: str
    type: type[T]
    page: int = 500
    metadata_only: bool = False


NAMESPACES = Resource("namespaces", Object, metadata_only=True)
# A Node names up to 50 images and weighs 20 KB and more, so a page of 500 would take over 10 MB while it is read.
NODES = Resource("nodes", NodeObject, page=100)
CLAIMS = Resource("resourceclaims", ClaimObject)
CLAIM_TEMPLATES = Resource("resourceclaimtemplates", ClaimTemplateObject)
DEVICE_CLASSES = Resource("deviceclasses", DeviceClassObject)


def name_of(obj: Object) -> str:
    """The name, which is the whole key of an object that is in no Namespace."""
    return obj.metadata.name


def key_of(obj: Object) -> tuple[str, str]:
    """Namespace and name."""
    return obj.metadata.namespace, obj.metadata.name


def labels_of(obj: Object) -> dict[str, str]:
    """The labels. The same few keys are on every object, so they are kept in memory once."""
    return {sys.intern(key): value for key, value in (obj.metadata.labels or {}).items()}


def node_of(obj: NodeObject) -> Node:
    """What rules read of a Node."""
    taints = tuple(Taint(sys.intern(taint.key), taint.effect, taint.value or "") for taint in obj.spec.taints or ())
    return Node(obj.metadata.name, labels_of(obj), taints)
