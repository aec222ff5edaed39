"""`cks-admission topology tree|doctor|list|show`: Nodes as a tree of domains, flaws of their network, topologies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click
from msgspec import structs

from policies.engine.match import EVERYTHING, SelectorRequirement
from policies.engine.violation import listed, printable
from policies.topology.nodes.tree import MEANINGS, Branch, Flaw, Kind, best_topology, flaws, path, suited
from policies.topology.nodes.tree import tree as grow
from policies.topology.placement import alternatives
from policies.topology.topology import Topology, natural
from webhook.cli import options
from webhook.cli.output import OK, REFUSED, InputError, counted, say, show, style, table, write_text
from webhook.cli.topology import drawing, inventory
from webhook.configuration.settings import ClusterSettings


@click.command("tree", short_help="Draw the Nodes as a tree of domains, with free GPUs.")
@click.option("-f", "--filename", "paths", multiple=True, metavar="FILE|DIR|-", help="Nodes and Pods; repeatable.")
@inventory.cluster
@click.option(
    "--topology", "name", default="", metavar="NAME", help="Topology to show them by.  [default: what fits the Nodes]"
)
@click.option("--level", default="", metavar="LEVEL", help="Last level to show.  [default: down to the Nodes]")
@options.config
@options.output_of("text", "json", "yaml", "svg", help="Output format; svg is a picture.")
def tree_command(
    paths: tuple[str, ...], where: ClusterSettings, name: str, level: str, config: Path | None, output: str
) -> None:
    """Draw the Nodes as a tree of domains, with free and all GPUs at every level.

    \b
    Examples:
      kubectl get nodes,pods -A -o json | cks-admission topology tree -f -
      cks-admission topology tree --kubeconfig ~/.kube/config --level superpod
      cks-admission topology tree -f nodes.json -o svg > nodes.svg
    """
    if bool(paths) == where.is_given:
        raise click.UsageError(
            f"give the Nodes: -f FILE with what {inventory.HOW} prints, or a cluster by --kubeconfig"
        )
    known = inventory.read(options.settings(config, {}), where, paths, "everything")
    machines, catalog = known.machines or (), known.catalog
    if not machines:
        raise InputError("the cluster has no Nodes")
    topology = inventory.find(catalog, name) if name else best_topology(machines, tuple(catalog.by_name.values()))
    lowest = topology.find(level) if level else None
    if level and lowest is None:
        raise InputError(f'--level {level}: topology "{topology.name}" has no such level. {topology.in_order}')

    # What the tree does not show.
    if machines[0].used is None:
        say(f"which GPUs are free is not known without Pods; {inventory.HOW} gives them", err=True)
    if lowest is not None and all(lowest.value(machine.node.labels) is None for machine in machines):
        say(f"no Node has the level {topology.called(lowest)}: the label {' or '.join(lowest.keys)}", err=True)
    if (fitting := len(suited(topology, machines))) < len(machines):
        nodes = counted(len(machines), "Node")
        say(f"topology {topology.name} is for {fitting} of {nodes}; all are shown", err=True)

    root = grow(machines, topology, lowest)
    if output == "svg":
        write_text(drawing.svg(root, topology))
    else:
        show(output, drawing.text(root, topology), {"topology": topology.name, **_inside(root, topology)})


def _inside(branch: Branch, topology: Topology) -> dict[str, Any]:
    """What is in a domain. `used`, `free` and `unavailable` are null where Pods are not known.

    `name` of a domain is null for the Nodes that lack the level.
    """
    count = branch.count
    domains = [
        {"level": topology.called(inner.level) if inner.level else "", "name": inner.value, **_inside(inner, topology)}
        for inner in branch.branches
    ]
    members = [
        {
            "name": machine.node.name,
            "gpus": machine.total,
            "used": machine.used,
            "free": machine.free,
            "ready": machine.ready,
            "cordoned": machine.cordoned,
            "obstacles": list(machine.reasons),
            **({"flaws": [structs.asdict(flaw) for flaw in machine.flaws]} if machine.flaws else {}),
        }
        for machine in branch.machines
    ]
    return {
        "nodes": count.nodes,
        "closedNodes": count.closed,
        "obstacles": dict(count.obstacles),
        "gpus": count.total,
        "used": count.used,
        "free": count.free,
        "unavailable": None if count.free is None else count.unavailable,
        **({"flaws": dict(count.flaws)} if count.flaws else {}),
        **({"domains": domains} if domains else {}),
        **({"members": members} if members else {}),
    }


_SHOWN = 8


@click.command("doctor", short_help="Show flaws of the network by the labels of Nodes.")
@options.nodes
@inventory.cluster
@options.config
@options.output
def doctor_command(nodes: tuple[str, ...], where: ClusterSettings, config: Path | None, output: str) -> None:
    """Show flaws of the network by the labels of Nodes.

    It finds links that are slower than expected, ports with another neighbor, leafgroups in two superpods, labels that
    are half set, and backend and ib labels that contradict each other. Exit code 1 if it finds any.

    \b
    Examples:
      kubectl get nodes -o json | cks-admission topology doctor --nodes -
      cks-admission topology doctor --kubeconfig ~/.kube/config -o json
    """
    if bool(nodes) == where.is_given:
        raise click.UsageError(
            "give the Nodes: --nodes FILE with what kubectl get nodes -o json prints, or a cluster by --kubeconfig"
        )
    known = inventory.read(options.settings(config, {}), where, nodes).nodes
    if not known:
        raise InputError("the cluster has no Nodes")
    flawed = flaws(known)
    groups: dict[Flaw, list[str]] = {}
    for name in sorted(flawed, key=natural):
        for flaw in flawed[name]:
            groups.setdefault(flaw, []).append(name)
    # A paragraph for each kind of flaw, with the Nodes of each.
    total = len({name for names in groups.values() for name in names})
    summary = f"{total:,} with a flaw of the network" if groups else "no flaws of the network"
    lines, data, last, kinds = [f"{counted(len(known), 'Node')}, {summary}"], [], "", get_args(Kind)
    for flaw, names in sorted(groups.items(), key=lambda item: (kinds.index(item[0].kind), item[0].text)):
        if flaw.kind != last:
            lines.append(style(f"{flaw.kind}: {MEANINGS[flaw.kind]}", bold=True))
            last = flaw.kind
        shown = listed(list(map(printable, names)), _SHOWN)
        lines.append(f"  {printable(flaw.text)} ({counted(len(names), 'Node')}: {shown})")
        data.append({"kind": flaw.kind, "text": flaw.text, "nodes": names})
    show(output, lines, {"nodes": len(known), "flaws": data})
    sys.exit(REFUSED if groups else OK)


@click.command("list", short_help="List all topologies.")
@inventory.cluster
@options.config
@options.output
def list_command(where: ClusterSettings, config: Path | None, output: str) -> None:
    """List all topologies: built in, configured, and those of a cluster.

    \b
    Examples:
      cks-admission topology list
      cks-admission topology list --config cks.yaml --kubeconfig ~/.kube/config
    """
    topologies = inventory.read(options.settings(config, {}), where, asked="topologies").catalog.by_name.values()
    rows = [(topology.name, topology.source, topology.called_all(topology.levels)) for topology in topologies]
    data = [{**_head(topology), "levels": list(map(topology.called, topology.levels))} for topology in topologies]
    show(output, table(("NAME", "SOURCE", "LEVELS, FARTHEST FIRST"), rows), data)


@click.command("show", short_help="Show the levels of a topology, and how many Nodes have them.")
@click.argument("name")
@options.nodes
@inventory.cluster
@options.config
@options.output
def show_command(name: str, nodes: tuple[str, ...], where: ClusterSettings, config: Path | None, output: str) -> None:
    """Show a topology: its levels with their keys, what it requires of Nodes, and how many Nodes have each level.

    \b
    Examples:
      cks-admission topology show coreweave
      kubectl get nodes -o json | cks-admission topology show coreweave --nodes -
      cks-admission topology show coreweave --kubeconfig ~/.kube/config
    """
    known = inventory.read(options.settings(config, {}), where, nodes)
    topology, machines = inventory.find(known.catalog, name), known.machines
    rows, levels = [], []
    for level in topology.levels:
        entry: dict[str, Any] = {"name": topology.called(level), "key": level.name, "keys": list(level.keys)}
        if level.alias:
            entry["alias"] = level.alias
        if machines is not None:
            around = [other for other in topology.levels if topology.position(other) <= topology.position(level)]
            paths = [path(around, m.node.labels) for m in machines if level.value(m.node.labels) is not None]
            entry |= {"nodes": len(paths), "domains": len(set(paths))}
        further = ", ".join(key for key in level.keys if key != level.name)
        short = level.short if topology.find(level.short) is level else ""
        amounts = (str(entry.get(amount, "")) for amount in ("nodes", "domains"))
        rows.append((short, level.name, further, level.alias, *amounts))
        levels.append(entry)
    requirement = None if topology.requirement == EVERYTHING else topology.requirement
    data = {
        **_head(topology),
        "levels": levels,
        "unions": [{"name": union.name, "keys": list(union.keys)} for union in topology.unions],
        "nodeRequirement": requirement.to_json() if requirement is not None else None,
        "pool": topology.pool.to_json() if topology.pool is not None else None,
        **({} if machines is None else {"nodes": len(machines)}),
    }
    lines = [f"{style(topology.name, bold=True)}: {topology.source}", ""]
    lines += table(("LEVEL", "KEY", "FURTHER KEYS", "ALIAS", "NODES", "DOMAINS"), rows, right=(4, 5))
    lines.append("")
    for union in topology.unions:
        if union.beside:
            lines.append(f"{union.name} names the domains of {union.beside} by other values.")
        else:
            lines.append(f"{union.name} is {', or where a Node lacks that, '.join(union.keys)}.")
    terms = () if requirement is None else alternatives((), requirement)
    lines.append(f"Node requirement: {', or '.join(map(_required, terms)) or 'none'}")
    pool = "none in particular" if topology.pool is None else _required(topology.pool.requirements)
    lines.append(f"Node pool: {pool}")
    if machines is not None:
        fitting = len(suited(topology, machines))
        lines.append(f"Nodes: {len(machines)}{'' if fitting == len(machines) else f', of which it is for {fitting}'}")
    show(output, lines, data)


def _head(topology: Topology) -> dict[str, Any]:
    return {"name": topology.name, "source": topology.source, "inCluster": topology.in_cluster}


def _required(requirements: Sequence[SelectorRequirement]) -> str:
    """What labels of Nodes have to be: `example.org/rack=12`."""
    words = []
    for one in requirements:
        values, is_many = ", ".join(one.values), len(one.values) > 1
        forms = {
            "In": f" in ({values})" if is_many else f"={values}",
            "NotIn": f" not in ({values})" if is_many else f"!={values}",
            "Exists": " is there",
            "DoesNotExist": " is not there",
        }
        words.append(f"{one.key}{forms[one.operator]}")
    return " and ".join(words)
