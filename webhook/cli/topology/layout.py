"""Where the boxes of domains and the cells of Nodes go in a picture: in rows, filled from left to right.

Lengths are in the picture's units, of which a screen shows one as a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from policies.topology.nodes.machine import Machine
from policies.topology.nodes.tree import Branch, Count, line
from policies.topology.topology import Topology
from webhook.cli.topology.treetext import title

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
