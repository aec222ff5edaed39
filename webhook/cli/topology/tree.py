"""`cks-admission topology tree|doctor|list|show`: Nodes as a tree of domains, flaws of their network, topologies."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click
from msgspec import structs

from policies.engine.match import EVERYTHING, SelectorRequirement
from policies.engine.violation import listed, printable
from policies.topology.nodes.tree import MEANINGS, Branch, Flaw, Kind, Machine, best_topology, flaws, path, suited
from policies.topology.nodes.tree import tree as grow
from policies.topology.placement import alternatives
from policies.topology.topology import Level, Topology, natural
from webhook.cli import exits, options
from webhook.cli.exits import InputError
from webhook.cli.output import counted, say, show, style, table, write_text
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
    machines = known.machines or ()
    if not machines:
        raise InputError("the cluster has no Nodes")
    topology = (
        inventory.find(known.catalog, name) if name else best_topology(machines, tuple(known.catalog.by_name.values()))
    )
    lowest = topology.find(level) if level else None
    if level and lowest is None:
        raise InputError(f'--level {level}: topology "{topology.name}" has no such level. {topology.in_order}')
    _notes(machines, topology, lowest)
    root = grow(machines, topology, lowest)
    if output == "svg":
        write_text(drawing.svg(root, topology))
    else:
        show(output, drawing.text(root, topology), {"topology": topology.name, **_inside(root, topology)})


def _notes(machines: Sequence[Machine], topology: Topology, lowest: Level | None) -> None:
    """Say what the tree does not show."""
    if machines[0].used is None:
        say(f"which GPUs are free is not known without Pods; {inventory.HOW} gives them", err=True)
    if lowest is not None and all(lowest.value(machine.node.labels) is None for machine in machines):
        keys = " or ".join(lowest.keys)
        say(f"no Node has the level {topology.called(lowest)}: the label {keys}", err=True)
    fitting = len(suited(topology, machines))
    if fitting < len(machines):
        told = f"topology {topology.name} is for {fitting} of {counted(len(machines), 'Node')}; all are shown"
        say(told, err=True)


def _inside(branch: Branch, topology: Topology) -> dict[str, Any]:
    """What is in a domain. `used`, `free` and `unavailable` are null where Pods are not known.

    `name` of a domain is null for the Nodes that lack the level.
    """
    count = branch.count
    domains = [
        {"level": topology.called(inner.level) if inner.level else "", "name": inner.value, **_inside(inner, topology)}
        for inner in branch.branches
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
        **({"members": list(map(_machine, branch.machines))} if branch.machines else {}),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.node.name,
        "gpus": machine.total,
        "used": machine.used,
        "free": machine.free,
        "ready": machine.ready,
        "cordoned": machine.cordoned,
        "obstacles": list(machine.reasons),
        **({"flaws": [structs.asdict(flaw) for flaw in machine.flaws]} if machine.flaws else {}),
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
    groups = _grouped(flaws(known))
    found = [{"kind": flaw.kind, "text": flaw.text, "nodes": names} for flaw, names in groups.items()]
    show(output, _flaws_text(groups, len(known)), {"nodes": len(known), "flaws": found})
    sys.exit(exits.REFUSED if groups else exits.OK)


def _grouped(flawed: Mapping[str, Iterable[Flaw]]) -> dict[Flaw, list[str]]:
    groups: dict[Flaw, list[str]] = {}
    for name in sorted(flawed, key=natural):
        for flaw in flawed[name]:
            groups.setdefault(flaw, []).append(name)
    kinds = get_args(Kind)
    return dict(sorted(groups.items(), key=lambda item: (kinds.index(item[0].kind), item[0].text)))


def _flaws_text(groups: Mapping[Flaw, list[str]], nodes: int) -> Iterator[str]:
    """A paragraph for each kind of flaw, with the Nodes of each."""
    flawed = len({name for names in groups.values() for name in names})
    told = f"{flawed:,} with a flaw of the network" if groups else "no flaws of the network"
    yield f"{counted(nodes, 'Node')}, {told}"
    last = ""
    for flaw, names in groups.items():
        if flaw.kind != last:
            yield style(f"{flaw.kind}: {MEANINGS[flaw.kind]}", bold=True)
            last = flaw.kind
        shown = listed(list(map(printable, names)), _SHOWN)
        yield f"  {printable(flaw.text)} ({counted(len(names), 'Node')}: {shown})"


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
    topology = inventory.find(known.catalog, name)
    show(output, _topology_text(topology, known.machines), _topology_json(topology, known.machines))


def _topology_text(topology: Topology, machines: Sequence[Machine] | None) -> Iterator[str]:
    yield f"{style(topology.name, bold=True)}: {topology.source}"
    yield ""
    rows = []
    for level in topology.levels:
        further = ", ".join(key for key in level.keys if key != level.name)
        counts = ("", "") if machines is None else map(str, _counts(level, topology, machines))
        short = level.short if topology.find(level.short) is level else ""
        rows.append((short, level.name, further, level.alias, *counts))
    yield from table(("LEVEL", "KEY", "FURTHER KEYS", "ALIAS", "NODES", "DOMAINS"), rows, right=(4, 5))
    yield ""
    for union in topology.unions:
        if union.beside:
            yield f"{union.name} names the domains of {union.beside} by other values."
        else:
            yield f"{union.name} is {', or where a Node lacks that, '.join(union.keys)}."
    terms = () if topology.requirement == EVERYTHING else alternatives((), topology.requirement)
    yield f"Node requirement: {', or '.join(map(_required, terms)) or 'none'}"
    yield f"Node pool: {'none in particular' if topology.pool is None else _required(topology.pool.requirements)}"
    if machines is not None:
        fitting = len(suited(topology, machines))
        yield f"Nodes: {len(machines)}{'' if fitting == len(machines) else f', of which it is for {fitting}'}"


def _counts(level: Level, topology: Topology, machines: Sequence[Machine]) -> tuple[int, int]:
    around = [other for other in topology.levels if topology.position(other) <= topology.position(level)]
    paths = [path(around, m.node.labels) for m in machines if level.value(m.node.labels) is not None]
    return len(paths), len(set(paths))


def _topology_json(topology: Topology, machines: Sequence[Machine] | None) -> dict[str, Any]:
    levels = []
    for level in topology.levels:
        entry: dict[str, Any] = {"name": topology.called(level), "key": level.name, "keys": list(level.keys)}
        if level.alias:
            entry["alias"] = level.alias
        if machines is not None:
            entry["nodes"], entry["domains"] = _counts(level, topology, machines)
        levels.append(entry)
    return {
        **_head(topology),
        "levels": levels,
        "unions": [{"name": union.name, "keys": list(union.keys)} for union in topology.unions],
        "nodeRequirement": topology.requirement.to_json() if topology.requirement != EVERYTHING else None,
        "pool": topology.pool.to_json() if topology.pool is not None else None,
        **({} if machines is None else {"nodes": len(machines)}),
    }


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
