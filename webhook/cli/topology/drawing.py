"""The tree of Nodes as text, and as a picture: a box for each domain, a cell for each Node, a square for each GPU.

Lengths in the picture are in its units, of which a screen shows one as a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from msgspec import Struct

from policies.engine.violation import listed, printable
from policies.topology.nodes.manifest import reasons
from policies.topology.nodes.tree import Branch, Count, Machine, count, line
from policies.topology.topology import Topology
from webhook.cli.output import counted, style

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
    yield style(_row_line(" " * wide, heads, widths).rstrip(), bold=True)
    for row, numbers in zip(rows, cells, strict=True):
        gap = " " * (wide - len(row.drawing) - len(row.label))
        label = row.label if row.is_machine else style(row.label, bold=True)
        note = style(row.note, fg="yellow") if row.note else ""
        tail = "  ".join(part for part in (_text_bar(row.count) if known else "", note) if part)
        yield f"{_row_line(row.drawing + label + gap, numbers, widths)}  {tail}".rstrip()
    if known and root.count.total:
        told = ((USED, "used"), (FREE, "free"), (UNAVAILABLE, "on Nodes that take no Pods"))
        yield ""
        yield "   ".join(f"{style(sign, fg=_COLOURS[sign])} {meaning}" for sign, meaning in told)


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
    gpus = f" with {machines[0].total} GPUs each" if machines[0].total else ""
    return f"{counted(len(names), 'Node')}{gpus}: {listed(names, _NODES_NAMED)}"


def _text_bar(count: Count) -> str:
    """Used, free and unavailable accelerators as shares of a bar; what there is of any is seen."""
    if not count.total or count.used is None or count.free is None:
        return ""
    parts = shares((count.used, count.free, count.unavailable), _BAR)
    signs = (USED, FREE, UNAVAILABLE)
    return "".join(style(sign * part, fg=_COLOURS[sign]) for sign, part in zip(signs, parts, strict=True) if part)


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


_WIDEST, _NARROWEST, _MARGIN = 1152.0, 640.0, 24.0
_TITLE, _SUBTITLE, _LEGEND = 22.0, 13.0, 12.0
# How much wider than high boxes are made; that which takes the least room is taken.
_ASPECTS = (0.7, 0.9, 1.1, 1.4, 1.7, 2.1, 2.6, 3.2, 4.0)
_LONGEST_TITLE, _LONGEST_NAME = 320.0, 150.0
_ROUNDING, _NEARLY = 0.01, 0.75
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
_CLOSED = (("unavailable", "not used, and not to be had"), ("closed", "Node that takes no Pods"))


class _Scale(NamedTuple):
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


_SCALES = (
    _Scale(24, square=15, gap=3, pad=7, space=10, head=14, name=11),
    _Scale(80, square=10, gap=2, pad=5, space=8, head=12, name=9),
    _Scale(240, square=8, gap=2, pad=4, space=6, head=11, name=0),
    _Scale(800, square=6, gap=1, pad=3, space=5, head=10, name=0),
    _Scale(math.inf, square=4, gap=1, pad=2, space=4, head=9, name=0),
)


class _Block(NamedTuple):
    """A box with what is in it: the cells of Nodes at their places, or rows of further boxes.

    line: the domains that the box stands for, which have the same Nodes; empty for the cells of Nodes that share a box
    with other boxes. width, height: the least. head: the height of the heading. cell: the size of a cell.
    """

    line: tuple[Branch, ...]
    width: float
    height: float
    head: float = 0.0
    cells: tuple[tuple[Machine, float, float], ...] = ()
    cell: tuple[float, float] = (0.0, 0.0)
    rows: tuple[tuple[_Block, ...], ...] = ()


def svg(root: Branch, topology: Topology) -> str:
    """The picture as the text of an SVG file."""
    scale = next(scale for scale in _SCALES if _drawn(root) <= scale.most)
    picture = min(
        (_Picture(topology, scale, aspect) for aspect in _ASPECTS), key=lambda one: math.prod(one.whole(root)[:2])
    )
    wide, high, rows = picture.whole(root)
    width = wide + 2 * _MARGIN
    legend = list(_legend(root, width))
    top = legend[-1][3] + _MARGIN
    height = top + high + _MARGIN
    size = f'width="{_n(width)}" height="{_n(height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_n(width)} {_n(height)}" role="img">',
        f"<title>{_escaped(f'{topology.name}: {_summary(root.count)}')}</title>",
        f"<style>{_STYLE}</style>",
        _HATCH,
        f'<rect {size} fill="#ffffff"/>',
        _words(f"Topology {topology.name}", _MARGIN, _MARGIN + _TITLE * 0.8, _TITLE, wide, "strong"),
        _words(_summary(root.count), _MARGIN, _MARGIN + 46, _SUBTITLE, wide, "quiet"),
    ]
    for kind, meaning, x, y in legend:
        if kind:
            mark = f"cell {kind}" if kind in ("closed", "flawed") else kind
            lines.append(f'<rect class="{mark}" x="{_n(x)}" y="{_n(y - 10)}" width="12" height="12" rx="2"/>')
        lines.append(_words(meaning, x + (20 if kind else 0), y, _LEGEND, math.inf, "quiet"))
    lines += [f'<g transform="translate({_n(_MARGIN)} {_n(top)})">', *picture.inside(rows, 0, 0, wide, 0), "</g>"]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(root: Branch, width: float) -> Iterator[tuple[str, str, float, float]]:
    """The kinds of what is drawn with their meanings and places, in as many lines as they need."""
    known = root.count.free is not None
    meanings = [("used", "held by Pods"), ("free", "free")]
    if not known:
        meanings = [("unknown", "a GPU; free or not is not known")]
    if root.count.closed:
        meanings += _CLOSED if known else _CLOSED[1:]
    if root.count.flaws:
        meanings.append(("flawed", "Node with a flaw of its network"))
    meanings.append(("", "numbers: free / all GPUs" if known else "numbers: all GPUs"))
    x, y = _MARGIN, _MARGIN + 74
    for kind, meaning in meanings:
        long = (20 if kind else 0) + text_width(meaning, _LEGEND, bold=False)
        if x > _MARGIN and x + long > width - _MARGIN:
            x, y = _MARGIN, y + 20
        yield kind, meaning, x, y
        x += long + 16


class _Picture(NamedTuple):
    """Makes and draws boxes of one scale and shape."""

    topology: Topology
    scale: _Scale
    aspect: float

    def whole(self, root: Branch) -> tuple[float, float, tuple[tuple[_Block, ...], ...]]:
        """Width and height of all boxes, and their rows."""
        blocks = self._blocks(root, _WIDEST)
        narrowest = max(_NARROWEST, *(block.width for block in blocks))
        width = min(_WIDEST, max(narrowest, self._shaped_width(blocks, 2.0)))
        rows = self._rows(blocks, width)
        return width, self._height(rows), rows

    def _blocks(self, branch: Branch, widest: float) -> list[_Block]:
        """What is in a domain: the cells of Nodes that are in no further domain first.

        Boxes that are nearly as wide as the widest one are made as wide, so that they stand below each other.
        """
        blocks = [self._block(inner, widest) for inner in branch.branches]
        most = max((block.width for block in blocks), default=0.0)
        blocks = [block._replace(width=most) if block.width >= _NEARLY * most else block for block in blocks]
        return [self._cells((), branch.machines, widest), *blocks] if branch.machines else blocks

    def _block(self, branch: Branch, widest: float) -> _Block:
        """The box of a domain, in the room that is there for it."""
        scale, chain = self.scale, line(branch)
        inner = widest - 2 * scale.space
        titles = min(_LONGEST_TITLE, text_width(_heading(chain, self.topology), scale.head))
        least = titles + text_width(_counts(branch.count), scale.head) + 2 * scale.space
        if chain[-1].branches:
            blocks = self._blocks(chain[-1], inner)
            rows = self._rows(blocks, min(inner, self._shaped_width(blocks, self.aspect)))
            made = _Block(tuple(chain), max(map(self._width, rows)), self._height(rows), rows=rows)
        else:
            made = self._cells(tuple(chain), chain[-1].machines, inner, least)
        head, bottom = 2 * scale.head + scale.space, scale.space if made.height else 0.0
        width, height = max(made.width, least) + 2 * scale.space, head + made.height + bottom
        return made._replace(width=width, height=height, head=head)

    def _cells(
        self, chain: tuple[Branch, ...], machines: Sequence[Machine], widest: float, least: float = 0.0
    ) -> _Block:
        """The Nodes in rows, and the room that they take. least: the width that they have anyway."""
        if not machines:
            return _Block(chain, 0.0, 0.0)
        scale, gap = self.scale, self.scale.gap + 1
        step, wide, high = scale.square + scale.gap, 0.0, 0.0
        for machine in machines:
            columns = _columns(machine)
            name = min(_LONGEST_NAME, text_width(machine.node.name, scale.name)) if scale.name else 0.0
            wide = max(wide, max(2, columns) * step - scale.gap + 2 * scale.pad, name + 2 * scale.pad)
            high = max(high, (math.ceil(machine.total / columns) if columns else 1) * step - scale.gap + 2 * scale.pad)
        high += scale.name + scale.pad if scale.name else 0.0
        area = len(machines) * (wide + gap) * (high + gap)
        width = min(widest, max(least, math.sqrt(area * self.aspect)))
        down = math.ceil(len(machines) / max(1, int((width + gap) // (wide + gap))))
        across = math.ceil(len(machines) / down)
        places = ((index % across * (wide + gap), index // across * (high + gap)) for index in range(len(machines)))
        cells = tuple((machine, *place) for machine, place in zip(machines, places, strict=True))
        return _Block(chain, across * (wide + gap) - gap, down * (high + gap) - gap, 0.0, cells, (wide, high))

    def _shaped_width(self, blocks: Sequence[_Block], aspect: float) -> float:
        """The width that gives blocks this shape together."""
        space = self.scale.space
        area = sum((block.width + space) * (block.height + space) for block in blocks)
        return max(math.sqrt(area * aspect), *(block.width for block in blocks))

    def _rows(self, blocks: Sequence[_Block], width: float) -> tuple[tuple[_Block, ...], ...]:
        """The blocks in rows that are not wider, unless a single one is.

        Nodes without the level and without accelerators, as those for CPU work are, stand for themselves.
        """
        rows: list[list[_Block]] = []
        for block in blocks:
            is_aside = bool(block.line) and block.line[0].value is None and not block.line[0].count.total
            if rows and not is_aside and self._width([*rows[-1], block]) <= width + _ROUNDING:
                rows[-1].append(block)
            else:
                rows.append([block])
        return tuple(map(tuple, rows))

    def _width(self, row: Sequence[_Block]) -> float:
        return sum(block.width for block in row) + self.scale.space * (len(row) - 1)

    def _height(self, rows: Sequence[Sequence[_Block]]) -> float:
        return sum(max(block.height for block in row) for row in rows) + self.scale.space * (len(rows) - 1)

    def inside(
        self, rows: Sequence[Sequence[_Block]], left: float, top: float, width: float, depth: int
    ) -> Iterator[str]:
        """Rows of boxes, stretched so that they fill the width.

        The last row is stretched as the one before it, so that equal boxes stand below each other.
        """
        more = math.inf
        for row in rows:
            more = min(more if row is rows[-1] else math.inf, (width - self._width(row)) / len(row))
            high, x = max(block.height for block in row), left
            for block in row:
                yield from self._box(block, (x, top, block.width + more, high), depth)
                x += block.width + more + self.scale.space
            top += high + self.scale.space

    def _box(self, block: _Block, at: tuple[float, float, float, float], depth: int) -> Iterator[str]:
        (x, y, width, _), space = at, self.scale.space
        inset = space if block.head else 0.0
        if block.line:
            title = f"{_heading(block.line, self.topology)}: {_summary(block.line[0].count)}"
            yield f'<g class="domain">\n<title>{_escaped(title)}</title>'
            yield from self._frame(block.line, at, depth)
        for machine, across, down in block.cells:
            yield from self._cell(machine, x + inset + across, y + block.head + down, *block.cell)
        yield from self.inside(block.rows, x + inset, y + block.head, width - 2 * inset, depth + 1)
        if block.line:
            yield "</g>"

    def _frame(self, chain: tuple[Branch, ...], at: tuple[float, float, float, float], depth: int) -> Iterator[str]:
        """The box itself, its heading, its numbers, and a bar of what is used."""
        scale, (x, y, width, height), count = self.scale, at, chain[0].count
        lacks = " lacks" if any(branch.value is None for branch in chain) else ""
        yield (
            f'<rect class="box{lacks}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
            f'rx="{_n(min(8, scale.space))}" fill="{_FILLS[depth % len(_FILLS)]}"/>'
        )
        left, right, base = x + scale.space, x + width - scale.space, y + scale.space * 0.5 + scale.head
        numbers = _counts(count)
        room = right - left - text_width(numbers, scale.head) - scale.space
        yield _words(_heading(chain, self.topology), left, base, scale.head, room, "lacking" if lacks else "strong")
        yield _words(numbers, right, base, scale.head, math.inf, "quiet", "end")
        if count.used is None or count.free is None or not count.total:
            return
        amounts = (("used", count.used), ("unavailable", count.unavailable), ("free", count.free))
        for kind, amount in amounts:
            part = (right - x - scale.space) * amount / sum(number for _, number in amounts)
            if amount:
                at_y = _n(base + scale.head * 0.45)
                yield f'<rect class="bar {kind}" x="{_n(left)}" y="{at_y}" width="{_n(part)}" height="3"/>'
            left += part

    def _cell(self, machine: Machine, x: float, y: float, width: float, height: float) -> Iterator[str]:
        scale, columns = self.scale, _columns(machine)
        gpus = counted(machine.total, "GPU")
        if not machine.total:
            gpus = "no GPUs"
        elif machine.free is not None:
            gpus = f"{machine.free} of {gpus} free"
        title = ", ".join(part for part in (f"{machine.node.name}: {gpus}", state(machine)) if part)
        yield f'<g class="node">\n<title>{_escaped(title)}</title>'
        marks = ("" if machine.is_open else " closed") + (" flawed" if machine.flaws else "")
        yield (
            f'<rect class="cell{marks}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
            f'rx="{_n(min(4, scale.pad))}"/>'
        )
        step = scale.square + scale.gap
        wide = max(2, columns) * step - scale.gap
        start = x + (width - wide) / 2
        kinds = ["unknown"] * machine.total
        if machine.used is not None and machine.free is not None:
            used = min(machine.used, machine.total)
            kinds = ["used"] * used + ["free"] * machine.free
            kinds += ["unavailable"] * (machine.total - len(kinds))
        for index, kind in enumerate(kinds):
            across, down = start + index % columns * step + 0.5, y + scale.pad + index // columns * step + 0.5
            yield (
                f'<rect class="{kind}" x="{_n(across)}" y="{_n(down)}" width="{_n(scale.square - 1)}" '
                f'height="{_n(scale.square - 1)}" rx="{_n(scale.square / 6)}"/>'
            )
        if not machine.total:
            middle = y + scale.pad + scale.square / 2
            yield f'<path class="none" d="M{_n(start + wide / 4)} {_n(middle)}h{_n(wide / 2)}"/>'
        if scale.name:
            room, base = width - 2 * scale.pad, y + height - scale.pad
            yield _words(machine.node.name, x + width / 2, base, scale.name, room, "quiet", "middle")
        yield "</g>"


def _columns(machine: Machine) -> int:
    """How many squares stand side by side in a Node's cell."""
    return min(machine.total, 4) if machine.total <= 8 else math.ceil(math.sqrt(2 * machine.total))


def _drawn(branch: Branch) -> int:
    """The Nodes that are drawn, and the boxes with nothing in them."""
    return sum(map(_drawn, branch.branches)) + len(branch.machines) or 1


def _summary(count: Count) -> str:
    gpus = counted(count.total, "GPU")
    free = (
        f"{gpus}, of which it is not known how many are free"
        if count.free is None
        else f"{count.free:,} of {gpus} free"
    )
    return " · ".join(part for part in (counted(count.nodes, "Node"), free, noted(count)) if part)


def _heading(chain: Sequence[Branch], topology: Topology) -> str:
    """What a box is called that stands for several domains."""
    return " \u203a ".join(title(branch, topology) for branch in chain)


def _counts(count: Count) -> str:
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


def _words(text: str, x: float, y: float, size: float, width: float, kind: str, anchor: str = "") -> str:
    """A text at its place, cut where it is wider."""
    bold, shown = kind == "strong", text
    while shown and text_width(shown, size, bold=bold) > width:
        text = text[:-1]
        shown = f"{text}…" if text else ""
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{anchored}>{_escaped(shown)}</text>'


def _escaped(text: str) -> str:
    return escape(printable(text))


def _n(value: float) -> str:
    """A length with a tenth of a pixel at most."""
    return f"{value:.1f}".removesuffix(".0")
