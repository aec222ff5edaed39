"""`cks-admission topology list` and `cks-admission topology show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from policies.engine.match import EVERYTHING, SelectorRequirement
from policies.topology.nodes.tree import Machine, path, suited
from policies.topology.term import alternatives
from policies.topology.topology import Level, Topology
from webhook.cli import options
from webhook.cli.output import say, style, table, write
from webhook.cli.topology import inventory
from webhook.configuration.settings import ClusterSettings


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
    if output == "text":
        rows = [(topology.name, topology.source, topology.called_all(topology.levels)) for topology in topologies]
        say(*table(("NAME", "SOURCE", "LEVELS, FARTHEST FIRST"), rows))
        return
    write(
        [{**_head(topology), "levels": list(map(topology.called, topology.levels))} for topology in topologies], output
    )


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
    if output == "text":
        say(*_text(topology, known.machines))
    else:
        write(_json(topology, known.machines), output)


def _text(topology: Topology, machines: Sequence[Machine] | None) -> Iterator[str]:
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


def _json(topology: Topology, machines: Sequence[Machine] | None) -> dict[str, Any]:
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
