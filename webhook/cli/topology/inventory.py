"""Where topologies and Nodes come from: the configuration, files, a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from policies.engine.facts import Node, StaticFacts
from policies.kubernetes.spelling import closest, closest_first
from policies.topology.catalog import Catalog
from policies.topology.nodes.machine import Machine, machines
from policies.topology.nodes.requests import allocatable
from policies.topology.topology import Topology
from webhook.cli import options
from webhook.cli.exits import InputError, ToolError, reading
from webhook.cli.topology import nodefiles
from webhook.cli.topology.nodefiles import Objects
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError

if TYPE_CHECKING:
    from policies.topology.placer.placer import Placer

Extent = Literal["topologies", "nodes", "everything"]
"""How much is read of a cluster; each contains those before it. Everything: with Pods and workloads."""


class ClusterOptions(NamedTuple):
    """Which cluster to look at, if any."""

    kubeconfig: str = ""
    in_cluster: bool = False


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
        nodes = () if self.objects is None else self.objects.nodes
        with reading(ValueError):
            made = [replace(one.node, allocatable=allocatable(one.status.allocatable)) for one in nodes]
        return tuple(sorted(made, key=attrgetter("name")))

    @cached_property
    def machines(self) -> tuple[Machine, ...] | None:
        """The Nodes with their accelerators; None without Nodes. Raises InputError."""
        if self.objects is None:
            return None
        with reading(ValueError):
            return machines(self.objects.nodes, self.objects.pods, self.accelerators)

    def placer(self, settings: Settings) -> Placer:
        """A placer that knows all of it. Raises InputError."""
        from policies.topology.placer.placer import Options, Placer  # noqa: PLC0415 - loads numpy, most runs do without

        chosen = rules.topology_options(settings)
        facts = StaticFacts(datetime.now(UTC).date(), cluster_nodes=self.nodes, cluster_topologies=self.own)
        seconds = settings.topology.settle_seconds, settings.topology.patience_seconds
        placer = Placer(Options(chosen.workloads, facts, chosen.accelerators, *seconds))
        placer.put_catalog(self.catalog)
        objects = self.objects or Objects(())
        with reading(ValueError), nodefiles.uncollected():
            for node in objects.nodes:
                placer.put_node(node)
            for workload in objects.workloads:
                placer.put_root(workload)
            for pod in objects.pods or ():
                placer.put_pod(pod, objects.placed.get(pod.key))
        return placer


def cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a cluster."""
    kubeconfig = click.option("--kubeconfig", default="", metavar="FILE", help="Cluster to look at.")
    in_cluster = click.option("--in-cluster", is_flag=True, help="Look at the cluster by the Pod's service account.")
    return kubeconfig(in_cluster(command))


def read(settings: Settings, where: ClusterOptions, paths: Sequence[str] = (), asked: Extent = "nodes") -> Inventory:
    """The topologies, and the Nodes of files or else of the cluster; what is doubtful about them is said on stderr.

    asked: what is read of a cluster. Raises InputError and ToolError.
    """
    try:
        catalog = rules.topologies(settings)
    except SettingsError as error:
        raise InputError(str(error)) from None
    objects = nodefiles.read(paths, options.stdin(paths)) if paths else None
    own: tuple[Topology, ...] = ()
    if any(where):
        own, there = _look(where, "topologies" if paths else asked)
        catalog = catalog.joined(own)
        objects = objects or there
    for clash in catalog.clashes:
        click.echo(str(clash), err=True)
    return Inventory(catalog, own, settings.tolerations.accelerators.resources, objects)


def find(catalog: Catalog, name: str) -> Topology:
    """The topology of a name. Raises InputError."""
    topology = catalog.find(name)
    if topology is not None:
        return topology
    near = closest(name, catalog.by_name)
    known = f"Known topologies: {', '.join(closest_first(name, catalog.by_name))}."
    raise InputError(f'topology "{name}" is not known. {f"Did you mean {near}? " if near else ""}{known}')


def _look(where: ClusterOptions, asked: Extent) -> tuple[tuple[Topology, ...], Objects | None]:
    """Topologies and Nodes of a cluster. Raises ToolError."""
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - most runs need no cluster

    try:
        return asyncio.run(_ask(where, asked))
    except ClusterError as error:
        raise ToolError(str(error)) from None


async def _ask(where: ClusterOptions, asked: Extent) -> tuple[tuple[Topology, ...], Objects | None]:
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - loads the client
    from webhook.cluster.inspection import inventory  # noqa: PLC0415 - as above
    from webhook.cluster.placer.objects import MENTION  # noqa: PLC0415 - as above

    api = await connect(where.kubeconfig or None, where.in_cluster)
    try:
        known = await inventory.topologies(api)
        for problem in known.problems:
            click.echo(problem, err=True)
        if asked == "topologies":
            return known.found, None
        nodes = await inventory.nodes(api)
        if asked == "nodes":
            return known.found, Objects(tuple(nodes))
        pods = await inventory.pods(api)
        workloads = await inventory.workloads(api)
    finally:
        await api.close()
    for problem in workloads.problems:
        click.echo(problem, err=True)
    placed = {pod.key: msgspec.json.decode(raw) for pod, raw in pods if MENTION in bytes(raw)}
    return known.found, Objects(tuple(nodes), tuple(pod for pod, _ in pods), placed, workloads.found, time.time())
