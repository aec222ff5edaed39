"""The tree of Nodes as a picture: a box for each domain, in it a cell for each Node, in it a square for each GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from msgspec import Struct

from policies.engine.violation import printable
from policies.topology.nodes.machine import Machine
from policies.topology.nodes.tree import Branch, Count
from policies.topology.topology import Topology
from webhook.cli.output import counted
from webhook.cli.topology.layout import Box, Cell, Layout, counts, heading, plan, shortened, text_width
from webhook.cli.topology.treetext import noted, state

_MARGIN = 24.0
_TITLE, _SUBTITLE, _LEGEND = 22.0, 13.0, 12.0
# Blue, orange and green of the palette by Okabe and Ito, which people tell apart who do not see all colours. The kinds
# also differ without colour: full, hatched, empty, and pale where nothing is known.
_STYLE = """
text { font-family: Inter, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2933; }
.strong { font-weight: 600; }
.quiet { fill: #52606d; }
.lacking { font-style: italic; fill: #52606d; }
.box { stroke: #cbd2d9; stroke-width: 1; }
.box.lacks { stroke-dasharray: 5 3; }
.cell { fill: #ffffff; stroke: #cbd2d9; stroke-width: 1; }
.cell.flawed { stroke: #cc79a7; stroke-width: 2; }
.cell.closed { fill: #fff4e6; stroke: #d55e00; stroke-dasharray: 3 2; }
.used { fill: #0072b2; stroke: #0072b2; }
.free { fill: #ffffff; stroke: #009e73; }
.unavailable { fill: url(#hatch); stroke: #d55e00; }
.unknown { fill: #e4e7eb; stroke: #9aa5b1; }
.bar.used { stroke: none; }
.bar.free { fill: #a8dcc9; stroke: none; }
.bar.unavailable { stroke: none; }
.none { stroke: #9aa5b1; stroke-width: 1.5; }
"""
_HATCH = (
    '<defs><pattern id="hatch" width="3" height="3" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="3" height="3" fill="#ffe3c7"/><rect width="1.3" height="3" fill="#d55e00"/></pattern></defs>'
)
_FILLS = ("#ffffff", "#f5f7fa", "#ffffff", "#eef2f6")
_MEANINGS = (("used", "held by Pods"), ("free", "free"))
_FLAWED = (("flawed", "Node with a flaw of its network"),)
_CLOSED = (("unavailable", "not used, and not to be had"), ("closed", "Node that takes no Pods"))


class _Entry(Struct, frozen=True):
    """An entry of the legend and its place."""

    kind: str
    text: str
    x: float
    y: float


def draw(root: Branch, topology: Topology) -> str:
    """The picture as the text of an SVG file."""
    made = plan(root, topology)
    width = made.width + 2 * _MARGIN
    entries = _legend(root, width)
    top = entries[-1].y + _MARGIN
    height = top + made.height + _MARGIN
    size = f'width="{_n(width)}" height="{_n(height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_n(width)} {_n(height)}" role="img">',
        f"<title>{_escaped(f'{topology.name}: {_summary(root.count)}')}</title>",
        f"<style>{_STYLE}</style>",
        _HATCH,
        f'<rect {size} fill="#ffffff"/>',
        _text(f"Topology {topology.name}", _MARGIN, _MARGIN + _TITLE * 0.8, _TITLE, width - 2 * _MARGIN, "strong"),
        _text(_summary(root.count), _MARGIN, _MARGIN + 46, _SUBTITLE, width - 2 * _MARGIN, "quiet"),
        *(line for entry in entries for line in _entry(entry)),
        f'<g transform="translate({_n(_MARGIN)} {_n(top)})">',
        *(line for box in made.boxes for line in _box(box, made, topology, 0)),
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _summary(count: Count) -> str:
    parts = [counted(count.nodes, "Node")]
    if count.free is not None:
        parts.append(f"{count.free:,} of {counted(count.total, 'GPU')} free")
    else:
        parts.append(f"{counted(count.total, 'GPU')}, of which it is not known how many are free")
    if notes := noted(count):
        parts.append(notes)
    return " · ".join(parts)


def _legend(root: Branch, width: float) -> list[_Entry]:
    """The entries, in as many lines as they need."""
    known = root.count.free is not None
    meanings = list(_MEANINGS) if known else [("unknown", "a GPU; free or not is not known")]
    if root.count.closed:
        meanings += _CLOSED if known else _CLOSED[1:]
    meanings += _FLAWED if root.count.flaws else ()
    meanings.append(("", "numbers: free / all GPUs" if known else "numbers: all GPUs"))
    x, y = _MARGIN, _MARGIN + 74
    entries: list[_Entry] = []
    for kind, text in meanings:
        long = (20 if kind else 0) + text_width(text, _LEGEND, bold=False)
        if entries and x + long > width - _MARGIN:
            x, y = _MARGIN, y + 20
        entries.append(_Entry(kind, text, x, y))
        x += long + 16
    return entries


def _entry(entry: _Entry) -> Iterator[str]:
    if entry.kind:
        kind = f"cell {entry.kind}" if entry.kind in ("closed", "flawed") else entry.kind
        yield f'<rect class="{kind}" x="{_n(entry.x)}" y="{_n(entry.y - 10)}" width="12" height="12" rx="2"/>'
    left = entry.x + (20 if entry.kind else 0)
    yield _text(entry.text, left, entry.y, _LEGEND, math.inf, "quiet")


def _box(box: Box, made: Layout, topology: Topology, depth: int) -> Iterator[str]:
    block = box.block
    if block.line:
        yield '<g class="domain">'
        yield f"<title>{_escaped(f'{heading(block.line, topology)}: {_summary(block.line[0].count)}')}</title>"
        yield from _frame(box, made, topology, depth)
    for cell in block.cells:
        inset = made.scale.space if block.head else 0.0
        yield from _cell(cell, box.x + inset, box.y + block.head, made)
    for inner in box.boxes:
        yield from _box(inner, made, topology, depth + 1)
    if block.line:
        yield "</g>"


def _frame(box: Box, made: Layout, topology: Topology, depth: int) -> Iterator[str]:
    """The box itself, its heading, its numbers, and a bar of what is used."""
    scale, chain = made.scale, box.block.line
    lacks = " lacks" if any(branch.value is None for branch in chain) else ""
    yield (
        f'<rect class="box{lacks}" x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" '
        f'height="{_n(box.height)}" rx="{_n(min(8, scale.space))}" fill="{_FILLS[depth % len(_FILLS)]}"/>'
    )
    numbers = counts(chain[0].count)
    left, right = box.x + scale.space, box.x + box.width - scale.space
    base = box.y + scale.space * 0.5 + scale.head
    room = right - left - text_width(numbers, scale.head) - scale.space
    yield _text(heading(chain, topology), left, base, scale.head, room, "lacking" if lacks else "strong")
    yield (
        f'<text class="quiet" x="{_n(right)}" y="{_n(base)}" font-size="{_n(scale.head)}" '
        f'text-anchor="end">{numbers}</text>'
    )
    yield from _bar(chain[0].count, left, base + scale.head * 0.45, right - left)


def _bar(count: Count, x: float, y: float, width: float) -> Iterator[str]:
    if count.used is None or count.free is None or not count.total:
        return
    amounts = (("used", count.used), ("unavailable", count.unavailable), ("free", count.free))
    whole = sum(amount for _, amount in amounts)
    for kind, amount in amounts:
        part = width * amount / whole
        if amount:
            yield f'<rect class="bar {kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(part)}" height="3"/>'
        x += part


def _cell(cell: Cell, left: float, top: float, made: Layout) -> Iterator[str]:
    scale, machine = made.scale, cell.machine
    x, y = left + cell.x, top + cell.y
    yield '<g class="node">'
    yield f"<title>{_escaped(_told(machine))}</title>"
    marks = ("" if machine.is_open else " closed") + (" flawed" if machine.flaws else "")
    yield (
        f'<rect class="cell{marks}" x="{_n(x)}" y="{_n(y)}" width="{_n(cell.width)}" height="{_n(cell.height)}" '
        f'rx="{_n(min(4, scale.pad))}"/>'
    )
    step = scale.square + scale.gap
    wide = max(2, cell.columns) * step - scale.gap
    start = x + (cell.width - wide) / 2
    for index, kind in enumerate(_squares(machine)):
        across, down = index % cell.columns, index // cell.columns
        yield (
            f'<rect class="{kind}" x="{_n(start + across * step + 0.5)}" y="{_n(y + scale.pad + down * step + 0.5)}" '
            f'width="{_n(scale.square - 1)}" height="{_n(scale.square - 1)}" rx="{_n(scale.square / 6)}"/>'
        )
    if not machine.total:
        middle = y + scale.pad + scale.square / 2
        yield f'<path class="none" d="M{_n(start + wide / 4)} {_n(middle)}h{_n(wide / 2)}"/>'
    if scale.name:
        base = y + cell.height - scale.pad
        name = shortened(machine.node.name, scale.name, cell.width - 2 * scale.pad, bold=False)
        yield (
            f'<text class="quiet" x="{_n(x + cell.width / 2)}" y="{_n(base)}" font-size="{_n(scale.name)}" '
            f'text-anchor="middle">{_escaped(name)}</text>'
        )
    yield "</g>"


def _squares(machine: Machine) -> list[str]:
    """What each accelerator of a Node is."""
    if machine.used is None or machine.free is None:
        return ["unknown"] * machine.total
    used = min(machine.used, machine.total)
    return ["used"] * used + ["free"] * machine.free + ["unavailable"] * (machine.total - used - machine.free)


def _told(machine: Machine) -> str:
    if not machine.total:
        gpus = "no GPUs"
    elif machine.free is None:
        gpus = counted(machine.total, "GPU")
    else:
        gpus = f"{machine.free} of {counted(machine.total, 'GPU')} free"
    return ", ".join(part for part in (f"{machine.node.name}: {gpus}", state(machine)) if part)


def _text(text: str, x: float, y: float, size: float, width: float, kind: str) -> str:
    shown = _escaped(shortened(text, size, width, bold=kind == "strong"))
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}">{shown}</text>'


def _escaped(text: str) -> str:
    return escape(printable(text))


def _n(value: float) -> str:
    """A length with a tenth of a pixel at most."""
    return f"{value:.1f}".removesuffix(".0")
