"""The tree of Nodes as text, and as a picture: a box for each domain, a cell for each Node, a square for each GPU.

Lengths in the picture are in its units, of which a screen shows one as a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from policies.engine.violation import listed, printable
from policies.topology.nodes.tree import Branch, Count, Machine, count, line
from policies.topology.topology import Topology
from webhook.cli.output import counted, style

_SIGNS = {"█": ("blue", "used"), "░": ("green", "free"), "x": ("yellow", "on Nodes that take no Pods")}
_BAR = 8
# So many Nodes are shown one by one wherever they are; of more, those that are alike share a line.
_APART = 8
_ALIKE = 3
_NODES_NAMED = 3


_Line = tuple[str, str, bool, Count, str]
"""The drawing before a label, the label, whether it names Nodes, what is there, and a note."""


def text(root: Branch, topology: Topology) -> Iterator[str]:
    """The lines: one for each domain and each Node, under a head, and what the bars mean."""
    known = root.count.free is not None
    rows: list[_Line] = [("", f"topology {topology.name}", False, root.count, ""), *_below(root, topology, "")]
    heads = ["NODES", *(["FREE"] if known else []), "GPUS"]
    cells = []
    for _, _, is_machine, amount, _ in rows:
        nodes = "" if is_machine and amount.nodes == 1 else str(amount.nodes)
        gpus, free = (str(amount.total), str(amount.free)) if amount.total else ("-", "-")
        cells.append([nodes, *([free] if known else []), gpus])
    wide = max(len(drawing) + len(label) for drawing, label, *_ in rows)
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    yield style("  ".join((" " * wide, *map(str.rjust, heads, widths))).rstrip(), bold=True)
    for (drawing, label, is_machine, amount, note), numbers in zip(rows, cells, strict=True):
        gap = " " * (wide - len(drawing) - len(label))
        head = drawing + (label if is_machine else style(label, bold=True)) + gap
        bar = ""
        if amount.total and amount.used is not None and amount.free is not None:
            parts = shares((amount.used, amount.free, amount.unavailable), _BAR)
            bar = "".join(
                style(sign * part, fg=_SIGNS[sign][0]) for sign, part in zip(_SIGNS, parts, strict=True) if part
            )
        tail = "  ".join(filter(None, (bar, style(note, fg="yellow") if note else "")))
        yield f"{'  '.join((head, *map(str.rjust, numbers, widths)))}  {tail}".rstrip()
    if known and root.count.total:
        yield ""
        yield "   ".join(f"{style(sign, fg=colour)} {meaning}" for sign, (colour, meaning) in _SIGNS.items())


def _below(branch: Branch, topology: Topology, drawing: str) -> Iterator[_Line]:
    # Each Node is for itself, or where they are many those that are alike are together.
    alike: dict[Any, list[Machine]] = {}
    for number, machine in enumerate(branch.machines):
        key = (machine.total, machine.used, state(machine)) if len(branch.machines) > _APART else number
        alike.setdefault(key, []).append(machine)
    inside: list[Branch | list[Machine]] = [*branch.branches]
    for group in alike.values():
        inside += [group] if len(group) >= _ALIKE else [[machine] for machine in group]
    for position, child in enumerate(inside):
        joint, under = ("└─ ", "   ") if position == len(inside) - 1 else ("├─ ", "│  ")
        if isinstance(child, Branch):
            chain = line(child)
            label = ", ".join(title(domain, topology) for domain in chain)
            yield drawing + joint, label, False, child.count, noted(child.count)
            yield from _below(chain[-1], topology, drawing + under)
        else:
            names, total = [printable(machine.node.name) for machine in child], child[0].total
            several = f"{counted(len(names), 'Node')}{f' with {total} GPUs each' if total else ''}"
            label = names[0] if len(names) == 1 else f"{several}: {listed(names, _NODES_NAMED)}"
            yield drawing + joint, label, True, count(child), state(child[0])


def title(branch: Branch, topology: Topology) -> str:
    """What a domain is called: `rack 12`, or `(no rack)` for the Nodes that lack the level."""
    name = topology.called(branch.level) if branch.level is not None else ""
    return f"(no {name})" if branch.value is None else f"{name} {printable(branch.value)}"


def noted(count: Count) -> str:
    """How many Nodes take no Pods and why, and how many have a flaw of the network."""
    return ", ".join(f"{nodes} {why}" for why, nodes in (*count.obstacles, *count.flaws))


def state(machine: Machine) -> str:
    """What keeps Pods from a Node, and what is wrong with its network."""
    flaws = (f"{flaw.kind}: {printable(flaw.text)}" for flaw in machine.flaws)
    return "; ".join(filter(None, (", ".join(machine.reasons), *flaws)))


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


_WIDEST, _NARROWEST, _MARGIN = 1152.0, 720.0, 24.0
_TITLE, _SUBTITLE, _LEGEND = 22.0, 13.0, 12.0
# How much wider than high boxes are made.
_SHAPE = 3.2
_LONGEST_TITLE, _LONGEST_NAME, _ROUNDING = 600.0, 150.0, 0.01
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


class _Scale(NamedTuple):
    """Sizes. square: of a GPU. head: of headings. name: of Nodes' names, 0 for none."""

    square: float
    gap: float
    pad: float
    head: float
    name: float


_NEAR, _FAR = _Scale(square=10, gap=2, pad=6, head=12, name=9), _Scale(square=5, gap=1, pad=4, head=10, name=0)
# So many Nodes are drawn with their names.
_NAMED = 80


class _Block(NamedTuple):
    """A part of the picture: its size, and what draws it from its upper left corner on."""

    width: float
    height: float
    lines: Sequence[str]


def svg(root: Branch, topology: Topology) -> str:
    """The picture as the text of an SVG file."""
    scale = _NEAR if _drawn(root) <= _NAMED else _FAR
    body, summary = _inside(root, topology, scale, _WIDEST, 0), _summary(root.count)
    wide = max(_NARROWEST, min(_WIDEST, text_width(summary, _SUBTITLE, bold=False)), body.width)
    legend = _rows(list(_legend(root)), wide, 16)
    top = _MARGIN + 64 + legend.height + _MARGIN
    width, height = _n(wide + 2 * _MARGIN), _n(top + body.height + _MARGIN)
    size = f'width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" role="img">',
        f"<title>{_escaped(f'{topology.name}: {summary}')}</title>",
        f"<style>{_STYLE}</style>",
        _HATCH,
        f'<rect {size} fill="#ffffff"/>',
        _words(f"Topology {topology.name}", _MARGIN, _MARGIN + _TITLE * 0.8, _TITLE, wide, "strong"),
        _words(summary, _MARGIN, _MARGIN + 46, _SUBTITLE, wide, "quiet"),
        *_at(legend, _MARGIN, _MARGIN + 64),
        *_at(body, _MARGIN, top),
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(root: Branch) -> Iterator[_Block]:
    known = root.count.free is not None
    meanings = [("used", "held by Pods"), ("free", "free")]
    if not known:
        meanings = [("unknown", "a GPU; free or not is not known")]
    if root.count.closed:
        meanings += [("unavailable", "not used, and not to be had")] if known else []
        meanings.append(("closed", "Node that takes no Pods"))
    if root.count.flaws:
        meanings.append(("flawed", "Node with a flaw of its network"))
    meanings.append(("", "numbers: free / all GPUs" if known else "numbers: all GPUs"))
    for kind, meaning in meanings:
        left = 20.0 if kind else 0.0
        mark = f"cell {kind}" if kind in ("closed", "flawed") else kind
        lines = [f'<rect class="{mark}" width="12" height="12" rx="2"/>'] if kind else []
        lines.append(_words(meaning, left, 10, _LEGEND, math.inf, "quiet"))
        yield _Block(left + text_width(meaning, _LEGEND, bold=False), 14, lines)


def _at(block: _Block, x: float, y: float) -> Iterator[str]:
    yield f'<g transform="translate({_n(x)} {_n(y)})">'
    yield from block.lines
    yield "</g>"


def _rows(blocks: Sequence[_Block], widest: float, gap: float) -> _Block:
    """Blocks in rows that are not wider, unless a single one is."""
    lines: list[str] = []
    x = y = high = wide = 0.0
    for block in blocks:
        if x and x + block.width > widest:
            x, y, high = 0.0, y + high + gap, 0.0
        lines += _at(block, x, y)
        x, high = x + block.width + gap, max(high, block.height)
        wide = max(wide, x - gap)
    return _Block(wide, y + high, lines)


def _inside(branch: Branch, topology: Topology, scale: _Scale, widest: float, depth: int, least: float = 0.0) -> _Block:
    """What is in a domain: the cells of Nodes that are in no further domain first. least: its width anyway."""

    def shaped(blocks: Sequence[_Block], gap: float) -> _Block:
        area = sum((block.width + gap) * (block.height + gap) for block in blocks)
        return _rows(blocks, min(widest, max(least, math.sqrt(area * _SHAPE))), gap)

    cells = [shaped(list(_cells(branch.machines, scale)), scale.gap + 1)] if branch.machines else []
    return shaped([*cells, *(_box(inner, topology, scale, widest, depth) for inner in branch.branches)], scale.pad)


def _box(branch: Branch, topology: Topology, scale: _Scale, widest: float, depth: int) -> _Block:
    """A domain, or several that have the same Nodes: its heading, its numbers, a bar of what is used, what is in it."""
    chain, pad, count = line(branch), scale.pad, branch.count
    heading = " \u203a ".join(title(one, topology) for one in chain)
    numbers = "no GPUs"
    if count.total:
        numbers = f"{count.total:,} GPUs" if count.free is None else f"{count.free:,} / {count.total:,}"
    aside = text_width(numbers, scale.head) + pad
    least = min(_LONGEST_TITLE, text_width(heading, scale.head)) + aside
    inner = _inside(chain[-1], topology, scale, widest - 2 * pad, depth + 1, least)
    width = max(inner.width, least) + 2 * pad
    head, base = 2 * scale.head + pad, pad * 0.5 + scale.head
    height = head + inner.height + (pad if inner.height else 0)
    lacks = " lacks" if any(one.value is None for one in chain) else ""
    size = f'width="{_n(width)}" height="{_n(height)}"'
    lines = [
        f'<g class="domain">\n<title>{_escaped(f"{heading}: {_summary(count)}")}</title>',
        f'<rect class="box{lacks}" {size} rx="{_n(pad)}" fill="{_FILLS[depth % len(_FILLS)]}"/>',
        _words(heading, pad, base, scale.head, width - 2 * pad - aside + _ROUNDING, "lacking" if lacks else "strong"),
        _words(numbers, width - pad, base, scale.head, math.inf, "quiet", "end"),
    ]
    if count.used is not None and count.free is not None and count.total:
        left = pad
        for kind, amount in (("used", count.used), ("unavailable", count.unavailable), ("free", count.free)):
            part = (width - 2 * pad) * amount / (count.used + count.unavailable + count.free)
            at = f'x="{_n(left)}" y="{_n(base + scale.head * 0.45)}" width="{_n(part)}"'
            lines += [f'<rect class="bar {kind}" {at} height="3"/>'] if amount else []
            left += part
    return _Block(width, height, [*lines, *_at(inner, pad, head), "</g>"])


def _cells(machines: Sequence[Machine], scale: _Scale) -> Iterator[_Block]:
    """The Nodes of one domain, all of the same size."""
    # How many squares stand side by side in a cell, and what the largest one needs.
    columns = [min(m.total, 4) if m.total <= 8 else math.ceil(math.sqrt(2 * m.total)) for m in machines]
    step, width, height = scale.square + scale.gap, 0.0, 0.0
    for machine, across in zip(machines, columns, strict=True):
        name = min(_LONGEST_NAME, text_width(machine.node.name, scale.name))
        width = max(width, max(2, across) * step - scale.gap + 2 * scale.pad, name + 2 * scale.pad)
        rows = math.ceil(machine.total / across) if across else 1
        height = max(height, rows * step - scale.gap + 2 * scale.pad)
    height += scale.name + scale.pad if scale.name else 0.0
    for machine, across in zip(machines, columns, strict=True):
        gpus = counted(machine.total, "GPU") if machine.total else "no GPUs"
        if machine.total and machine.free is not None:
            gpus = f"{machine.free} of {gpus} free"
        about = ", ".join(filter(None, (f"{machine.node.name}: {gpus}", state(machine))))
        marks = ("" if machine.is_open else " closed") + (" flawed" if machine.flaws else "")
        size = f'width="{_n(width)}" height="{_n(height)}" rx="{_n(min(4, scale.pad))}"'
        lines = [f'<g class="node">\n<title>{_escaped(about)}</title>', f'<rect class="cell{marks}" {size}/>']
        # A square for each GPU, or a dash where there is none.
        wide = max(2, across) * step - scale.gap
        start, edge = (width - wide) / 2, _n(scale.square - 1)
        kinds = ["unknown"] * machine.total
        if machine.used is not None and machine.free is not None:
            kinds = ["used"] * min(machine.used, machine.total) + ["free"] * machine.free
            kinds += ["unavailable"] * (machine.total - len(kinds))
        for index, kind in enumerate(kinds):
            x, y = start + index % across * step + 0.5, scale.pad + index // across * step + 0.5
            lines.append(f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{edge}" height="{edge}" rx="1"/>')
        if not machine.total:
            middle = scale.pad + scale.square / 2
            lines.append(f'<path class="none" d="M{_n(start + wide / 4)} {_n(middle)}h{_n(wide / 2)}"/>')
        if scale.name:
            at, room = (width / 2, height - scale.pad), width - 2 * scale.pad
            lines.append(_words(machine.node.name, *at, scale.name, room, "quiet", "middle"))
        yield _Block(width, height, [*lines, "</g>"])


def _drawn(branch: Branch) -> int:
    """The Nodes that are drawn, and the boxes with nothing in them."""
    return sum(map(_drawn, branch.branches)) + len(branch.machines) or 1


def _summary(count: Count) -> str:
    gpus = counted(count.total, "GPU")
    free = f"{gpus}, free ones unknown" if count.free is None else f"{count.free:,} of {gpus} free"
    return " · ".join(filter(None, (counted(count.nodes, "Node"), free, noted(count))))


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
