"""Where topologies and Nodes come from: the configuration, a cluster, files that `kubectl get -o json` writes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policies import nodepool
from policies.engine.facts import Node, StaticFacts
from policies.engine.request import JsonObject, mapping
from policies.kubernetes.spelling import closest, closest_first
from policies.topology.gang import GangKey
from policies.topology.membership import ROOT_KINDS, identity
from policies.topology.nodes.manifest import NodeManifest, PodManifest, allocatable
from policies.topology.nodes.tree import Machine, machines
from policies.topology.placement import TOPOLOGY
from policies.topology.topology import Catalog, Topology
from webhook.cli import options
from webhook.cli.output import InputError, reading, say
from webhook.configuration import rules
from webhook.configuration.settings import ClusterSettings, Settings, SettingsError
from webhook.files import manifest
from webhook.files.yamlfile import OBJECTS, FileError, content

if TYPE_CHECKING:
    from policies.topology.placer.placer import Placer
    from webhook.cluster.api.client import Connection

HOW = "kubectl get nodes,pods -A -o json"
"""The command that prints what is read here."""

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Objects(NamedTuple):
    """What the Nodes of a cluster are and hold. pods: None if not known.

    placed: the Pods with a placement as JSON, by namespace and name. workloads: those with a placement. coming: the
    labels of Nodes that pools would add.
    """

    nodes: tuple[NodeManifest, ...]
    pods: tuple[PodManifest, ...] | None = None
    placed: Mapping[tuple[str, str], JsonObject] = {}
    workloads: tuple[JsonObject, ...] = ()
    coming: tuple[Mapping[str, str], ...] = ()

    @property
    def known(self) -> list[Node]:
        """The Nodes as rules see them. Raises InputError."""
        with reading(ValueError):
            return [replace(one.node, allocatable=allocatable(one.status.allocatable)) for one in self.nodes]


class _Head(Struct, rename="camel"):
    kind: str = ""


class _List(_Head):
    items: list[msgspec.Raw] | None = None


# A Node or a Pod, and what is needed of other objects, and of Pods with a placement.
_Read = tuple[NodeManifest | PodManifest | None, JsonObject | None]
_LIST = msgspec.json.Decoder(_List)
_HEAD = msgspec.json.Decoder(_Head)
_KINDS: dict[str, type[NodeManifest | PodManifest]] = {"Node": NodeManifest, "Pod": PodManifest}
# What every Node has. Where a file leaves it out, it was cut down by hand, and this does not limit its Pods.
_PLENTY: dict[str, str | int | float] = {"cpu": "1M", "memory": "1Pi", "pods": "1k"}
_MARKS = (TOPOLOGY.encode(), f'"{nodepool.KIND}"'.encode())


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, which looks through hundreds of thousands of new objects again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@uncollected()
def read_files(paths: Sequence[str], stdin: bytes = b"") -> Objects:
    """The objects in files, in directories and, for `-`, in the text of standard input.

    Objects of other kinds are passed over unless they have a placement, or are pools of Nodes.

    Raises InputError.
    """
    # What stands in two files is one object.
    nodes: dict[str, NodeManifest] = {}
    pods: dict[tuple[str, str], PodManifest] = {}
    placed: dict[tuple[str, str], JsonObject] = {}
    workloads: dict[GangKey, JsonObject] = {}
    coming: list[Mapping[str, str]] = []
    with reading(FileError):
        for name in (name for path in paths for name in ([path] if path == "-" else manifest.given(path))):
            text = stdin if name == "-" else content(name, most=OBJECTS, pipes=True)
            for item, obj in _quickly(text) or _carefully(name, text):
                if isinstance(item, NodeManifest):
                    nodes[item.metadata.name] = item
                elif item is not None:
                    pods[item.key] = item
                    if TOPOLOGY in mapping(mapping(obj, "metadata"), "annotations"):
                        placed[item.key] = obj or {}
                elif obj is not None:
                    coming += nodepool.labels(obj)
                    if ((key := identity(obj)).group, key.kind) in ROOT_KINDS:
                        workloads[key] = obj
    if not nodes:
        raise InputError(f"{', '.join(paths)}: no Nodes found; {HOW} prints them with their Pods")
    for node in nodes.values():
        node.status.allocatable = _PLENTY | (node.status.allocatable or {})
    manifests = tuple(pods.values()) or None
    return Objects(tuple(nodes.values()), manifests, placed, tuple(workloads.values()), tuple(coming))


def _quickly(text: bytes) -> list[_Read] | None:
    """What is in JSON; None for anything else, and where something is wrong with it.

    A cluster's Pods come to some hundred megabytes, for which YAML would take minutes.
    """
    try:
        whole = _LIST.decode(text)
        items = (whole.items or []) if whole.kind.endswith("List") else [msgspec.Raw(text)]
        objects: list[_Read] = []
        for item in items:
            # Items of a NodeList do not say what they are.
            kind = _KINDS.get(_HEAD.decode(item).kind or whole.kind.removesuffix("List"))
            made = None if kind is None else _checked(msgspec.json.decode(item, type=kind))
            is_needed = any(mark in bytes(item) for mark in _MARKS)
            objects.append((made, msgspec.json.decode(item) if is_needed else None))
    except _UNREADABLE:
        return None
    return objects


def _carefully(name: str, text: bytes) -> Iterator[_Read]:
    """What is in YAML or JSON, with the line of what is wrong. Raises InputError and FileError."""
    for written in manifest.read(["-"], text) if name == "-" else manifest.read([name]):
        obj = written.object
        kind = _KINDS.get(obj["kind"]) if obj["apiVersion"] == "v1" else None
        try:
            yield None if kind is None else _checked(msgspec.convert(obj, kind)), obj
        except _UNREADABLE as error:
            called = (obj.get("metadata") or {}).get("name")
            which = f"{obj['kind']} {called}" if isinstance(called, str) else obj["kind"]
            raise InputError(f"{written.where}: {which} cannot be read: {error}") from None


def _checked(item: NodeManifest | PodManifest) -> NodeManifest | PodManifest:
    """Raises ValueError for an amount that is malformed."""
    if isinstance(item, NodeManifest):
        amounts = [item.status.allocatable]
    else:
        containers = (*(item.spec.containers or ()), *(item.spec.init_containers or ()))
        asked = [container.resources for container in containers if container.resources is not None]
        amounts = [amount for one in asked for amount in (one.limits, one.requests)]
    for amount in amounts:
        _check(tuple((amount or {}).items()))
    return item


@lru_cache
def _check(quantities: tuple[tuple[str, str | int | float], ...]) -> None:
    """Raises ValueError for an amount that is malformed. Most Nodes and Pods of a cluster have the same ones."""
    allocatable(dict(quantities))


Extent = Literal["topologies", "nodes", "everything"]
"""How much is read of a cluster; each contains those before it. Everything: with Pods and workloads."""


@dataclass(frozen=True)
class Inventory:
    """Topologies and Nodes. own: the cluster's topologies, which the catalog has, too.

    accelerators: globs of resource names. objects: what Nodes, Pods and workloads say; None without Nodes.
    """

    catalog: Catalog
    own: tuple[Topology, ...]
    accelerators: tuple[str, ...]
    objects: Objects | None = None

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The Nodes, sorted by name."""
        return tuple(sorted(self.objects.known if self.objects else (), key=attrgetter("name")))

    @cached_property
    def machines(self) -> tuple[Machine, ...] | None:
        """The Nodes with their accelerators; None without Nodes. Raises InputError."""
        if self.objects is None:
            return None
        with reading(ValueError):
            return machines(self.objects.nodes, self.objects.pods, self.accelerators)

    def placer(self, settings: Settings) -> Placer:
        """A placer that knows all of it. Raises InputError."""
        from policies.topology.placer.placer import Placer  # noqa: PLC0415 - loads numpy, most runs do without
        from policies.topology.placer.state import Options  # noqa: PLC0415 - loads numpy, most runs do without

        chosen = rules.topology_options(settings)
        facts = StaticFacts(datetime.now(UTC).date(), cluster_nodes=self.nodes, cluster_topologies=self.own)
        seconds = settings.topology.settle_seconds, settings.topology.patience_seconds
        placer = Placer(Options(chosen.workloads, facts, chosen.accelerators, *seconds))
        placer.put_catalog(self.catalog)
        objects = self.objects or Objects(())
        with reading(ValueError), uncollected():
            for node in objects.nodes:
                placer.put_node(node)
            for workload in objects.workloads:
                placer.put_root(workload)
            for pod in objects.pods or ():
                placer.put_pod(pod, objects.placed.get(pod.key))
        return placer


def cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a cluster, which the command gets as `where`."""

    @wraps(command)
    def made(*, kubeconfig: str, in_cluster: bool, **others: Any) -> Any:
        where = ClusterSettings.model_validate({"kubeconfig": kubeconfig, "inCluster": in_cluster})
        return command(where=where, **others)

    named = click.option("--kubeconfig", default="", metavar="FILE", help="Kubeconfig of the cluster.")
    inside = click.option("--in-cluster", is_flag=True, help="Use the Pod's service account.")
    return named(inside(made))


def read(settings: Settings, where: ClusterSettings, paths: Sequence[str] = (), asked: Extent = "nodes") -> Inventory:
    """The topologies, and the Nodes of files or else of the cluster; what is doubtful about them is said on stderr.

    asked: what is read of a cluster. Raises InputError and ToolError.
    """

    async def ask(api: Connection) -> tuple[tuple[Topology, ...], Objects | None]:
        from webhook.cluster.inspection import inventory  # noqa: PLC0415 - loads the client
        from webhook.cluster.placer.objects import MENTION  # noqa: PLC0415 - as above

        known = await inventory.topologies(api)
        say(*known.problems, err=True)
        if paths or asked == "topologies":
            return known.found, None
        nodes = tuple(await inventory.nodes(api))
        if asked == "nodes":
            return known.found, Objects(nodes)
        pods = await inventory.pods(api)
        workloads = await inventory.workloads(api)
        say(*workloads.problems, err=True)
        placed = {pod.key: msgspec.json.decode(raw) for pod, raw in pods if MENTION in bytes(raw)}
        return known.found, Objects(nodes, tuple(pod for pod, _ in pods), placed, workloads.found)

    with reading(SettingsError):
        catalog = rules.topologies(settings)
    objects = read_files(paths, options.stdin(paths)) if paths else None
    own: tuple[Topology, ...] = ()
    if where.is_given:
        own, there = options.of_cluster(where, ask)
        catalog = catalog.joined(own)
        objects = objects or there
    say(*map(str, catalog.clashes), err=True)
    return Inventory(catalog, own, settings.tolerations.accelerators.resources, objects)


def find(catalog: Catalog, name: str) -> Topology:
    """The topology of a name. Raises InputError."""
    topology = catalog.find(name)
    if topology is not None:
        return topology
    near = closest(name, catalog.by_name)
    known = f"Known topologies: {', '.join(closest_first(name, catalog.by_name))}."
    raise InputError(f'topology "{name}" is not known. {f"Did you mean {near}? " if near else ""}{known}')
