"""Where topologies and Nodes come from: the configuration, files, a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from policies.kubernetes.spelling import closest, closest_first
from policies.topology.catalog import Catalog
from policies.topology.nodes.machine import Machine
from policies.topology.nodes.machine import machines as machines_of
from policies.topology.topology import Topology
from webhook.cli import options
from webhook.cli.exits import InputError, ToolError
from webhook.cli.topology import nodefiles
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError


class ClusterOptions(NamedTuple):
    """Which cluster to look at, if any."""

    kubeconfig: str = ""
    in_cluster: bool = False


class Inventory(NamedTuple):
    """Topologies and Nodes. own: the cluster's topologies, which the catalog has, too. machines: None without Nodes."""

    catalog: Catalog
    own: tuple[Topology, ...] = ()
    machines: tuple[Machine, ...] | None = None


def cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a cluster."""
    kubeconfig = click.option("--kubeconfig", default="", metavar="FILE", help="Cluster to look at.")
    in_cluster = click.option("--in-cluster", is_flag=True, help="Look at the cluster by the Pod's service account.")
    return kubeconfig(in_cluster(command))


nodes = click.option(
    "--nodes",
    "nodes",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Nodes, as kubectl get nodes -o json prints them; repeatable.",
)


def read(
    settings: Settings, where: ClusterOptions, paths: Sequence[str] = (), *, nodes: bool = True, pods: bool = False
) -> Inventory:
    """The topologies, and the Nodes of files or else of the cluster; what is doubtful about them is said on stderr.

    nodes, pods: whether to look at those of a cluster. Raises InputError and ToolError.
    """
    accelerators = settings.tolerations.accelerators.resources
    try:
        catalog = rules.topologies(settings)
    except SettingsError as error:
        raise InputError(str(error)) from None
    machines = nodefiles.read(paths, accelerators, options.stdin(paths)) if paths else None
    own: tuple[Topology, ...] = ()
    if any(where):
        own, there = _look(where, accelerators, nodes=nodes and not paths, pods=pods)
        catalog = catalog.joined(own)
        machines = there if machines is None else machines
    for clash in catalog.clashes:
        click.echo(str(clash), err=True)
    return Inventory(catalog, own, machines)


def find(catalog: Catalog, name: str) -> Topology:
    """The topology of a name. Raises InputError."""
    topology = catalog.find(name)
    if topology is not None:
        return topology
    near = closest(name, catalog.by_name)
    known = f"Known topologies: {', '.join(closest_first(name, catalog.by_name))}."
    raise InputError(f'topology "{name}" is not known. {f"Did you mean {near}? " if near else ""}{known}')


def _look(
    where: ClusterOptions, accelerators: Sequence[str], *, nodes: bool, pods: bool
) -> tuple[tuple[Topology, ...], tuple[Machine, ...] | None]:
    """Topologies and Nodes of a cluster. Raises ToolError."""
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - most runs need no cluster

    try:
        return asyncio.run(_ask(where, accelerators, nodes=nodes, pods=pods))
    except ClusterError as error:
        raise ToolError(str(error)) from None


async def _ask(
    where: ClusterOptions, accelerators: Sequence[str], *, nodes: bool, pods: bool
) -> tuple[tuple[Topology, ...], tuple[Machine, ...] | None]:
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - loads the client
    from webhook.cluster.inspection import inventory  # noqa: PLC0415 - as above

    api = await connect(where.kubeconfig or None, where.in_cluster)
    try:
        known = await inventory.topologies(api)
        for problem in known.problems:
            click.echo(problem, err=True)
        if not nodes:
            return known.found, None
        objects = await inventory.nodes(api)
        bound = await inventory.pods(api) if pods else None
    finally:
        await api.close()
    return known.found, machines_of(objects, bound, accelerators)
