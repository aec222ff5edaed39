"""The tree of Nodes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from msgspec import Struct

from policies.engine.violation import printable
from policies.topology.nodes.machine import Machine
from policies.topology.nodes.obstacle import reasons
from policies.topology.nodes.tree import Branch, Count, count, line
from policies.topology.topology import Topology
from webhook.cli.output import counted

USED, FREE, UNAVAILABLE = "█", "░", "x"
_BAR = 8
# So many Nodes are shown one by one wherever they are; of more, those that are alike share a line.
_APART = 8
_ALIKE = 3
_NAMED = 3
_COLOURS = {USED: "blue", FREE: "green", UNAVAILABLE: "yellow"}


class _Row(Struct, frozen=True):
    """A line. label: what stands left of the counts, with its branches drawn."""

    drawing: str
    label: str
    count: Count
    note: str = ""
    is_machine: bool = False


def draw(root: Branch, topology: Topology) -> Iterator[str]:
    """The lines: one for each domain and each Node, under a head, and what the bars mean."""
    rows = [_Row("", f"topology {topology.name}", root.count), *_below(root, topology, "")]
    known = root.count.free is not None
    heads = ["NODES", *(["FREE"] if known else []), "GPUS"]
    cells = [_cells(row, known=known) for row in rows]
    wide = max(len(row.drawing) + len(row.label) for row in rows)
    widths = [max(len(head), *(len(line[i]) for line in cells)) for i, head in enumerate(heads)]
    yield click.style(_line(" " * wide, heads, widths).rstrip(), bold=True)
    for row, numbers in zip(rows, cells, strict=True):
        gap = " " * (wide - len(row.drawing) - len(row.label))
        label = row.label if row.is_machine else click.style(row.label, bold=True)
        note = click.style(row.note, fg="yellow") if row.note else ""
        tail = "  ".join(part for part in (_bar(row.count) if known else "", note) if part)
        yield f"{_line(row.drawing + label + gap, numbers, widths)}  {tail}".rstrip()
    if known and root.count.total:
        told = ((USED, "used"), (FREE, "free"), (UNAVAILABLE, "on Nodes that take no Pods"))
        yield ""
        yield "   ".join(f"{click.style(sign, fg=_COLOURS[sign])} {meaning}" for sign, meaning in told)


def _line(label: str, numbers: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join((label, *(number.rjust(width) for number, width in zip(numbers, widths, strict=True))))


def _cells(row: _Row, *, known: bool) -> list[str]:
    counts = row.count
    nodes = "" if row.is_machine and counts.nodes == 1 else str(counts.nodes)
    gpus, free = (str(counts.total), str(counts.free)) if counts.total else ("-", "-")
    return [nodes, *([free] if known else []), gpus]


def _below(branch: Branch, topology: Topology, drawing: str) -> Iterator[_Row]:
    inside: list[Branch | tuple[Machine, ...]] = [*branch.branches, *_groups(branch.machines)]
    for position, child in enumerate(inside):
        joint, under = ("└─ ", "   ") if position == len(inside) - 1 else ("├─ ", "│  ")
        if isinstance(child, Branch):
            *_, lowest = chain = line(child)
            yield _Row(
                drawing + joint,
                ", ".join(title(domain, topology) for domain in chain),
                child.count,
                noted(child.count),
            )
            yield from _below(lowest, topology, drawing + under)
        else:
            yield _Row(drawing + joint, _names(child), count(child), state(child[0]), is_machine=True)


def title(branch: Branch, topology: Topology) -> str:
    """What a domain is called: `rack 12`, or `(no rack)` for the Nodes that lack the level."""
    name = topology.called(branch.level) if branch.level is not None else ""
    return f"(no {name})" if branch.value is None else f"{name} {printable(branch.value)}"


def noted(count: Count) -> str:
    """How many Nodes take no Pods and why, and how many have a flaw of the network."""
    flawed = ", ".join(f"{nodes} {kind}" for kind, nodes in count.flaws)
    return ", ".join(part for part in (closed(count), flawed) if part)


def closed(count: Count) -> str:
    """How many Nodes take no Pods, and why."""
    return ", ".join(f"{nodes} {reason}" for reason, nodes in count.obstacles)


def state(machine: Machine) -> str:
    """What keeps Pods from a Node, and what is wrong with its network."""
    told = (f"{flaw.kind}: {printable(flaw.text)}" for flaw in machine.flaws)
    return "; ".join(filter(None, (", ".join(reasons(machine.obstacles)), *told)))


def _groups(machines: Sequence[Machine]) -> list[tuple[Machine, ...]]:
    """The Nodes, each for itself, or where they are many those that are alike together."""
    if len(machines) <= _APART:
        return [(machine,) for machine in machines]
    alike: dict[tuple[int, int | None, str], list[Machine]] = {}
    for machine in machines:
        alike.setdefault((machine.total, machine.used, state(machine)), []).append(machine)
    groups: list[tuple[Machine, ...]] = []
    for group in alike.values():
        groups += [tuple(group)] if len(group) >= _ALIKE else [(machine,) for machine in group]
    return groups


def _names(machines: Sequence[Machine]) -> str:
    names = [printable(machine.node.name) for machine in machines]
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    gpus = f" with {machines[0].total} GPUs each" if machines[0].total else ""
    return f"{counted(len(names), 'Node')}{gpus}: {', '.join(names[:_NAMED])}{more}"


def _bar(count: Count) -> str:
    """Used, free and unavailable accelerators as shares of a bar; what there is of any is seen."""
    if not count.total or count.used is None or count.free is None:
        return ""
    parts = shares((count.used, count.free, count.unavailable), _BAR)
    signs = (USED, FREE, UNAVAILABLE)
    return "".join(click.style(sign * part, fg=_COLOURS[sign]) for sign, part in zip(signs, parts, strict=True) if part)


def shares(amounts: Sequence[int], length: int) -> list[int]:
    """A length in whole parts as the amounts are to each other; an amount that is not 0 gets 1 at least."""
    total = sum(amounts)
    if not total:
        return [0 for _ in amounts]
    lengths = [max(1, amount * length // total) if amount else 0 for amount in amounts]
    while sum(lengths) != length:
        step = 1 if sum(lengths) < length else -1
        # The part that is farthest from its share on the side where there is room.
        worst = max(
            (index for index, part in enumerate(lengths) if part > (1 if step < 0 else 0)),
            key=lambda index: step * (amounts[index] * length / total - lengths[index]),
        )
        lengths[worst] += step
    return lengths
