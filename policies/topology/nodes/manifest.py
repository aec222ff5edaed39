"""Nodes and Pods as the API server sends them, with the fields that decide where Pods fit.

A pod template has the form of a Pod, so that both are read alike: `msgspec.convert(template, PodManifest)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from policies.engine.facts import Node, Taint
from policies.nvlink import labelled

Quantities = Mapping[str, str | int | float]


class OwnerReference(Struct, rename="camel"):
    """The object that made another one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Metadata(Struct, rename="camel"):
    """What identifies an object, and to what it belongs."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class TaintManifest(Struct):
    """A taint as it is written."""

    key: str
    effect: str = ""
    value: str | None = None


class NodeSpec(Struct):
    """unschedulable: whether the Node is cordoned."""

    unschedulable: bool = False
    taints: list[TaintManifest] | None = None


class Condition(Struct):
    """A condition of a Node or a Pod."""

    type: str
    status: str = ""
    reason: str | None = None


class NodeStatus(Struct):
    """allocatable: what there is for Pods."""

    allocatable: dict[str, str | int | float] | None = None
    conditions: list[Condition] | None = None


class NodeManifest(Struct):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def node(self) -> Node:
        """The part of it that scheduling rules read."""
        taints = tuple(Taint(taint.key, taint.effect, taint.value or "") for taint in self.spec.taints or ())
        return Node(self.metadata.name, labelled(self.metadata.labels or {}), taints)

    @property
    def ready(self) -> bool:
        """Whether it is Ready. A Node without that condition counts as ready."""
        conditions = self.status.conditions or ()
        return all(condition.status == "True" for condition in conditions if condition.type == "Ready")


class Resources(Struct):
    """The resources of a container or of a whole Pod."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(Struct, rename="camel"):
    """A container. An init container that restarts always is a sidecar."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(Struct, rename="camel"):
    """The resources of a Pod and its place."""

    node_name: str = ""
    priority: int | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: Resources | None = None
    overhead: dict[str, str | int | float] | None = None


class ContainerStatus(Struct, rename="camel"):
    """What a running container has, which differs from its spec while it is resized."""

    name: str = ""
    resources: Resources | None = None
    allocated_resources: dict[str, str | int | float] | None = None


class PodStatus(Struct, rename="camel"):
    """resources, allocated_resources: those of the whole Pod, if it has resources of its own."""

    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: dict[str, str | int | float] | None = None


class PodManifest(Struct):
    """A Pod, or a pod template, which has no status."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def holds(self) -> bool:
        """Whether the Pod takes room on a Node: it is bound to one and has not finished."""
        return bool(self.spec.node_name) and self.status.phase not in ("Succeeded", "Failed")
