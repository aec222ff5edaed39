"""An explanation as text, and as data."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import click

from policies.topology.nodes.tree import Count, Path
from policies.topology.topology import Level, Topology
from webhook.cli.output import counted
from webhook.cli.topology.explanation import Explanation, Landing
from webhook.cli.topology.treetext import noted

# A placement in a large cluster leaves some hundred racks.
_SHOWN = 12


def text(explanation: Explanation) -> Iterator[str]:
    """The lines about a template."""
    yield click.style(explanation.path or "the Pod itself", bold=True)
    for key, value, path in explanation.annotations:
        yield f"  {key}: {value}  ({path})"
    if explanation.topology is not None:
        yield f"  {_levels(explanation, explanation.topology)}"
    for key, value in explanation.copied:
        yield f"  The template gets {key}: {value}."
    why = f" ({explanation.reason})" if explanation.reason else ""
    yield f"  {explanation.way or 'Nothing is done'}: {explanation.meaning}{why}."
    if explanation.never:
        yield click.style(f"  By the Nodes that there are it can never start: {explanation.never}.", fg="red")
    if explanation.landing is not None:
        yield from (f"  {line}" for line in _landed(explanation.landing, explanation.topology))


def _levels(explanation: Explanation, topology: Topology) -> str:
    """The levels, and what is placed on which."""
    told = []
    for level in topology.levels:
        marks = [
            f"{name} {placement.called(topology)}"
            for name, placement in explanation.placements
            if topology.position(placement.level) == topology.position(level)
        ]
        told.append(f"{topology.called(level)} [{', '.join(marks)}]" if marks else topology.called(level))
    return f"Topology {topology.name} ({topology.source}), farthest first: {', '.join(told)}."


def _landed(landing: Landing, topology: Topology | None) -> Iterator[str]:
    level = landing.level
    end = ":" if topology is not None and level is not None and landing.domains else "."
    yield f"By their labels {landing.nodes} of {counted(landing.all, 'Node')} may take the Pods{end}"
    if topology is None or level is None:
        return
    values: dict[Level, set[str]] = {}
    for path, _ in landing.domains:
        for placed, value in path:
            values.setdefault(placed, set()).add(value)
    telling = {placed for placed, several in values.items() if len(several) > 1} | {level}
    for path, count in landing.domains[:_SHOWN]:
        yield f"  {_path(path, level, telling, topology)}: {_room(count)}"
    if len(landing.domains) > _SHOWN:
        yield f"  and {counted(len(landing.domains) - _SHOWN, 'domain')} more"


def _room(count: Count) -> str:
    """`3 Nodes, 16 of 24 GPUs free, 1 cordoned`."""
    gpus = counted(count.total, "GPU") if count.total else "no GPUs"
    free = gpus if count.free is None or not count.total else f"{count.free:,} of {gpus} free"
    return ", ".join(part for part in (counted(count.nodes, "Node"), free, noted(count)) if part)


def _path(path: Path, level: Level, telling: AbstractSet[Level], topology: Topology) -> str:
    """A domain by those levels of it that tell it from others."""
    told = [f"{topology.called(placed)} {value}" for placed, value in path if placed in telling]
    lacking = [] if any(placed == level for placed, _ in path) else [f"(no {topology.called(level)})"]
    return ", ".join([*told, *lacking])


def data(explanation: Explanation) -> dict[str, Any]:
    """The same for machines."""
    topology = explanation.topology
    return {
        "path": explanation.path,
        "annotations": [{"key": key, "value": value, "path": path} for key, value, path in explanation.annotations],
        "topology": None if topology is None else topology.name,
        "levels": [] if topology is None else [topology.called(level) for level in topology.levels],
        **{
            name: {"level": topology.called(placement.level), "placement": placement.called(topology)}
            for name, placement in explanation.placements
            if topology is not None
        },
        "copied": dict(explanation.copied),
        "way": explanation.way,
        "meaning": explanation.meaning,
        "reason": explanation.reason,
        "never": explanation.never,
        **({} if explanation.landing is None else {"nodes": _landing_data(explanation.landing, topology)}),
    }


def _landing_data(landing: Landing, topology: Topology | None) -> dict[str, Any]:
    domains = [
        {
            "path": {topology.called(level): value for level, value in path},
            "nodes": count.nodes,
            "gpus": count.total,
            "free": count.free,
            "obstacles": dict(count.obstacles),
        }
        for path, count in landing.domains
        if topology is not None
    ]
    return {"allowed": landing.nodes, "all": landing.all, "domains": domains}
