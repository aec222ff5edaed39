"""The tree of Nodes as text, and as a picture: a box for each domain, a cell for each Node, a square for each GPU.

Lengths in the picture are in its units, of which a screen shows one as a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import click
from msgspec import Struct
from msgspec.structs import replace

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
_NODES_NAMED = 3
_COLOURS = {USED: "blue", FREE: "green", UNAVAILABLE: "yellow"}


class _Row(Struct, frozen=True):
    """A line. label: what stands left of the counts, with its branches drawn."""

    drawing: str
    label: str
    count: Count
    note: str = ""
    is_machine: bool = False


def text(root: Branch, topology: Topology) -> Iterator[str]:
    """The lines: one for each domain and each Node, under a head, and what the bars mean."""
    rows = [_Row("", f"topology {topology.name}", root.count), *_below(root, topology, "")]
    known = root.count.free is not None
    heads = ["NODES", *(["FREE"] if known else []), "GPUS"]
    cells = [_numbers(row, known=known) for row in rows]
    wide = max(len(row.drawing) + len(row.label) for row in rows)
    widths = [max(len(head), *(len(line[i]) for line in cells)) for i, head in enumerate(heads)]
    yield click.style(_row_line(" " * wide, heads, widths).rstrip(), bold=True)
    for row, numbers in zip(rows, cells, strict=True):
        gap = " " * (wide - len(row.drawing) - len(row.label))
        label = row.label if row.is_machine else click.style(row.label, bold=True)
        note = click.style(row.note, fg="yellow") if row.note else ""
        tail = "  ".join(part for part in (_text_bar(row.count) if known else "", note) if part)
        yield f"{_row_line(row.drawing + label + gap, numbers, widths)}  {tail}".rstrip()
    if known and root.count.total:
        told = ((USED, "used"), (FREE, "free"), (UNAVAILABLE, "on Nodes that take no Pods"))
        yield ""
        yield "   ".join(f"{click.style(sign, fg=_COLOURS[sign])} {meaning}" for sign, meaning in told)


def _row_line(label: str, numbers: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join((label, *(number.rjust(width) for number, width in zip(numbers, widths, strict=True))))


def _numbers(row: _Row, *, known: bool) -> list[str]:
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
    more = f" and {len(names) - _NODES_NAMED} more" if len(names) > _NODES_NAMED else ""
    gpus = f" with {machines[0].total} GPUs each" if machines[0].total else ""
    return f"{counted(len(names), 'Node')}{gpus}: {', '.join(names[:_NODES_NAMED])}{more}"


def _text_bar(count: Count) -> str:
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


WIDEST, NARROWEST = 1152.0, 640.0
# How much wider than high boxes are made; that which leaves the least room empty is taken.
_ASPECTS = (0.7, 0.9, 1.1, 1.4, 1.7, 2.1, 2.6, 3.2, 4.0)
_LONGEST_TITLE, _LONGEST_NAME = 320.0, 150.0
_ROUNDING, _NEARLY = 0.01, 0.75


class Scale(Struct, frozen=True):
    """Sizes. most: for how many Nodes, or boxes without any, they are meant. square: of a GPU. head: of headings.

    name: of Nodes' names, 0 for none.
    """

    most: float
    square: float
    gap: float
    pad: float
    space: float
    head: float
    name: float


SCALES = (
    Scale(most=24, square=15, gap=3, pad=7, space=10, head=14, name=11),
    Scale(most=80, square=10, gap=2, pad=5, space=8, head=12, name=9),
    Scale(most=240, square=8, gap=2, pad=4, space=6, head=11, name=0),
    Scale(most=800, square=6, gap=1, pad=3, space=5, head=10, name=0),
    Scale(most=math.inf, square=4, gap=1, pad=2, space=4, head=9, name=0),
)


class Cell(Struct, frozen=True):
    """A Node's place within its box, and how many squares stand side by side in it."""

    machine: Machine
    x: float
    y: float
    width: float
    height: float
    columns: int


class Block(Struct, frozen=True):
    """A box with what is in it, or with no branches the cells of Nodes that share a box with other boxes.

    line: the domains that the box stands for, which have the same Nodes. width, height: the least. head: the height of
    the heading. rows: boxes in it.
    """

    line: tuple[Branch, ...]
    width: float
    height: float
    head: float
    cells: tuple[Cell, ...] = ()
    rows: tuple[tuple[Block, ...], ...] = ()


class Box(Struct, frozen=True):
    """A block at its place; cells are at places within it."""

    block: Block
    x: float
    y: float
    width: float
    height: float
    boxes: tuple[Box, ...] = ()


class Layout(Struct, frozen=True):
    """All boxes, and how much room they take."""

    scale: Scale
    boxes: tuple[Box, ...]
    width: float
    height: float


def plan(root: Branch, topology: Topology, widest: float = WIDEST) -> Layout:
    """Places for all boxes, in the way that takes the least room and leaves the least of it empty."""
    shown = _shown(root)
    scale = next(scale for scale in SCALES if shown <= scale.most)
    plans = [_Maker(topology, scale, aspect).plan(root, widest) for aspect in _ASPECTS]
    return min(plans, key=lambda layout: layout.width * layout.height + sum(map(_empty, layout.boxes)))


class _Maker(NamedTuple):
    """Makes boxes of one scale and shape."""

    topology: Topology
    scale: Scale
    aspect: float

    def plan(self, root: Branch, widest: float) -> Layout:
        blocks = self._inside(root, widest)
        narrowest = max(NARROWEST, *(block.width for block in blocks))
        width = min(widest, max(narrowest, self._shaped_width(blocks, 2.0)))
        rows = self._rows(blocks, width)
        whole = Block((), width, self._height(rows), 0, rows=rows)
        return Layout(self.scale, self._arranged(whole, 0, 0, width, whole.height), width, whole.height)

    def _block(self, branch: Branch, widest: float) -> Block:
        """The box of a domain, in the room that is there for it."""
        scale, chain = self.scale, line(branch)
        inner = widest - 2 * scale.space
        titles = min(_LONGEST_TITLE, text_width(heading(chain, self.topology), scale.head))
        least = titles + text_width(counts(branch.count), scale.head) + 2 * scale.space
        cells: tuple[Cell, ...] = ()
        rows: tuple[tuple[Block, ...], ...] = ()
        if chain[-1].branches:
            blocks = self._inside(chain[-1], inner)
            rows = self._rows(blocks, min(inner, self._shaped_width(blocks, self.aspect)))
            width, height = max(self._width(row) for row in rows), self._height(rows)
        else:
            cells, width, height = self._cells(chain[-1].machines, inner, least)
        head = 2 * scale.head + scale.space
        bottom = scale.space if height else 0.0
        return Block(chain, max(width, least) + 2 * scale.space, head + height + bottom, head, cells, rows)

    def _inside(self, branch: Branch, widest: float) -> list[Block]:
        """What is in a domain: the cells of Nodes that are in no further domain first."""
        blocks = _evened([self._block(inner, widest) for inner in branch.branches])
        if not branch.machines:
            return blocks
        cells, width, height = self._cells(branch.machines, widest)
        return [Block((), width, height, 0, cells), *blocks]

    def _cells(
        self, machines: Sequence[Machine], widest: float, least: float = 0.0
    ) -> tuple[tuple[Cell, ...], float, float]:
        """The Nodes in rows, and the room that they take. least: the width that they have anyway."""
        sizes = [self._cell(machine) for machine in machines]
        if not sizes:
            return (), 0.0, 0.0
        gap = self.scale.gap + 1
        broadest = max(cell.width for cell in sizes)
        highest = max(cell.height for cell in sizes)
        area = len(sizes) * (broadest + gap) * (highest + gap)
        width = min(widest, max(least, math.sqrt(area * self.aspect)))
        down = math.ceil(len(sizes) / max(1, int((width + gap) // (broadest + gap))))
        across = math.ceil(len(sizes) / down)
        placed = tuple(
            replace(
                cell, x=index % across * (broadest + gap), y=index // across * (highest + gap),
                width=broadest, height=highest,
            )
            for index, cell in enumerate(sizes)
        )  # fmt: skip
        return placed, across * (broadest + gap) - gap, down * (highest + gap) - gap

    def _cell(self, machine: Machine) -> Cell:
        """A Node's cell, as small as it may be."""
        scale = self.scale
        columns = min(machine.total, 4) if machine.total <= 8 else math.ceil(math.sqrt(2 * machine.total))
        rows = math.ceil(machine.total / columns) if columns else 1
        step = scale.square + scale.gap
        width = max(2, columns) * step - scale.gap + 2 * scale.pad
        height = rows * step - scale.gap + 2 * scale.pad
        if scale.name:
            width = max(width, min(_LONGEST_NAME, text_width(machine.node.name, scale.name)) + 2 * scale.pad)
            height += scale.name + scale.pad
        return Cell(machine, 0, 0, width, height, columns)

    def _shaped_width(self, blocks: Sequence[Block], aspect: float) -> float:
        """The width that gives blocks this shape together."""
        space = self.scale.space
        area = sum((block.width + space) * (block.height + space) for block in blocks)
        return max(math.sqrt(area * aspect), *(block.width for block in blocks))

    def _rows(self, blocks: Sequence[Block], width: float) -> tuple[tuple[Block, ...], ...]:
        """The blocks in rows that are not wider, unless a single one is."""
        rows: list[list[Block]] = []
        for block in blocks:
            if rows and not _is_aside(block) and self._width([*rows[-1], block]) <= width + _ROUNDING:
                rows[-1].append(block)
            else:
                rows.append([block])
        return tuple(map(tuple, rows))

    def _width(self, row: Sequence[Block]) -> float:
        return sum(block.width for block in row) + self.scale.space * (len(row) - 1)

    def _height(self, rows: Sequence[Sequence[Block]]) -> float:
        return sum(max(block.height for block in row) for row in rows) + self.scale.space * (len(rows) - 1)

    def _arranged(self, block: Block, x: float, y: float, width: float, height: float) -> tuple[Box, ...]:
        """The boxes in a block, stretched so that they fill it.

        The last row is stretched as the one before it, so that equal boxes stand below each other.
        """
        boxes = []
        space = self.scale.space
        left = x + space if block.head else x
        inner = width - 2 * space if block.head else width
        top = y + block.head
        more_height = (height - block.height) / len(block.rows) if block.rows else 0.0
        more = math.inf
        for row in block.rows:
            more = min(more if row is block.rows[-1] else math.inf, (inner - self._width(row)) / len(row))
            high = max(inside.height for inside in row) + more_height
            across = left
            for inside in row:
                wide = inside.width + more
                boxes.append(Box(inside, across, top, wide, high, self._arranged(inside, across, top, wide, high)))
                across += wide + space
            top += high + space
        return tuple(boxes)


def _shown(branch: Branch) -> int:
    """The Nodes that are drawn, and the boxes with nothing in them."""
    return sum(map(_shown, branch.branches)) + len(branch.machines) or 1


def _empty(box: Box) -> float:
    """The room that is left at the bottom of cells, since other boxes of a row are higher."""
    own = (box.height - box.block.height) * box.width if box.block.cells else 0.0
    return own + sum(map(_empty, box.boxes))


def _is_aside(block: Block) -> bool:
    """Whether it stands for itself: Nodes without the level and without accelerators, as those for CPU work are."""
    return bool(block.line) and block.line[0].value is None and not block.line[0].count.total


def _evened(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, those that are nearly as wide as the widest one made as wide, so that they stand below each other."""
    widest = max((block.width for block in blocks), default=0.0)
    return [replace(block, width=widest) if block.width >= _NEARLY * widest else block for block in blocks]


def heading(chain: Sequence[Branch], topology: Topology) -> str:
    """What a box is called that stands for several domains."""
    return " \u203a ".join(title(branch, topology) for branch in chain)


def counts(count: Count) -> str:
    """Free accelerators of all, or only all, as on a box."""
    if not count.total:
        return "no GPUs"
    return f"{count.total:,} GPUs" if count.free is None else f"{count.free:,} / {count.total:,}"


def text_width(text: str, size: float, *, bold: bool = True) -> float:
    """How wide a text is at most, in one of the wider fonts that browsers take for sans-serif."""
    narrow = sum(letter in "iIjl.,:;'|!()[] /·" for letter in text)
    broad = sum(letter in "mwMW@%" or letter > "\u00ff" for letter in text)
    widths = 0.42 * narrow + 1.05 * broad + 0.72 * (len(text) - narrow - broad)
    return size * widths * (1.0 if bold else 0.9)


def shortened(text: str, size: float, width: float, *, bold: bool = True) -> str:
    """The text, cut where it is wider."""
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(f"{text}…", size, bold=bold) > width:
        text = text[:-1]
    return f"{text}…"


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


def svg(root: Branch, topology: Topology) -> str:
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
        _svg_text(f"Topology {topology.name}", _MARGIN, _MARGIN + _TITLE * 0.8, _TITLE, width - 2 * _MARGIN, "strong"),
        _svg_text(_summary(root.count), _MARGIN, _MARGIN + 46, _SUBTITLE, width - 2 * _MARGIN, "quiet"),
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
    yield _svg_text(entry.text, left, entry.y, _LEGEND, math.inf, "quiet")


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
    yield _svg_text(heading(chain, topology), left, base, scale.head, room, "lacking" if lacks else "strong")
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


def _svg_text(text: str, x: float, y: float, size: float, width: float, kind: str) -> str:
    shown = _escaped(shortened(text, size, width, bold=kind == "strong"))
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}">{shown}</text>'


def _escaped(text: str) -> str:
    return escape(printable(text))


def _n(value: float) -> str:
    """A length with a tenth of a pixel at most."""
    return f"{value:.1f}".removesuffix(".0")
