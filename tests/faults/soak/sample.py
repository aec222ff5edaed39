"""What was measured every few seconds, as rows of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    """One interval. seconds: since the beginning; rate: answers a second; p50, p99, slowest: in milliseconds.

    memory: MiB of each replica; descriptors: open files and connections of each. events: what was done in it.
    """

    seconds: float
    rate: float
    p50: float
    p99: float
    slowest: float
    lost: int
    wrong: int
    memory: tuple[float, ...]
    descriptors: tuple[int, ...]
    events: tuple[str, ...] = ()


def write(path: Path, samples: Sequence[Sample]) -> None:
    """Write them to a file, with a header."""
    replicas = range(1, len(samples[0].memory) + 1)
    head = [*Sample._fields[:7], *(f"memory {n}" for n in replicas), *(f"descriptors {n}" for n in replicas), "events"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        for one in samples:
            numbers = [f"{number:.1f}" for number in one[:5]]
            sizes = [f"{size:.1f}" for size in one.memory]
            writer.writerow([*numbers, one.lost, one.wrong, *sizes, *one.descriptors, "; ".join(one.events)])


def middle(values: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


_WIDTH, _HEIGHT = 720.0, 130.0
_LEFT, _RIGHT, _TOP, _GAP = 64.0, 16.0, 56.0, 46.0
# Blue, orange and green of the palette by Okabe and Ito, which people tell apart who do not see all colours.
_COLOURS = ("#0072b2", "#d55e00", "#009e73")
_STYLE = """
text { font-family: Inter, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2933; }
.quiet { fill: #52606d; font-size: 11px; }
.axis { stroke: #cbd2d9; }
.event { stroke: #e4e7eb; }
polyline { fill: none; stroke-width: 1.4; }
"""


def draw(samples: Sequence[Sample], title: str) -> str:
    """The picture as the text of an SVG file."""
    panels: list[tuple[str, tuple[tuple[float, ...], ...]]] = [
        ("memory of each replica, MiB", tuple(zip(*(sample.memory for sample in samples), strict=True))),
        ("descriptors of each replica", tuple(zip(*(sample.descriptors for sample in samples), strict=True))),
        ("p99 of answers, ms", (tuple(sample.p99 for sample in samples),)),
    ]
    times = [sample.seconds for sample in samples]
    events = [sample.seconds for sample in samples if sample.events]
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + len(panels) * (_HEIGHT + _GAP)
    size = f'width="{width:g}" height="{height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect {size} fill="#ffffff"/>',
        f'<text x="{_LEFT:g}" y="26" font-size="15">{title}</text>',
    ]
    for number, (name, lines_of) in enumerate(panels):
        lines += [f'<g transform="translate({_LEFT:g} {_TOP + number * (_HEIGHT + _GAP):g})">']
        lines += [*_panel(name, lines_of, times, events), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _panel(
    title: str, lines: Sequence[Sequence[float]], times: Sequence[float], events: Sequence[float]
) -> Iterator[str]:
    """A line for each series, over the same time."""
    most = 1.15 * max(1.0, *(value for series in lines for value in series))
    end = times[-1] or 1.0
    yield f'<text class="quiet" x="0" y="-6">{title}</text>'
    for event in events:
        at = _WIDTH * event / end
        yield f'<line class="event" x1="{at:.1f}" y1="0" x2="{at:.1f}" y2="{_HEIGHT:g}"/>'
    for share in (0.0, 0.5, 1.0):
        y = _HEIGHT * (1 - share)
        yield f'<line class="axis" x1="0" y1="{y:g}" x2="{_WIDTH:g}" y2="{y:g}"/>'
        yield f'<text class="quiet" x="-8" y="{y + 4:g}" text-anchor="end">{most * share:.0f}</text>'
        yield (
            f'<text class="quiet" x="{_WIDTH * share:g}" y="{_HEIGHT + 15:g}" text-anchor="middle">'
            f"{end * share / 60:.3g} min</text>"
        )
    for series, colour in zip(lines, _COLOURS, strict=False):
        points = (
            f"{_WIDTH * at / end:.1f},{_HEIGHT * (1 - value / most):.1f}"
            for at, value in zip(times, series, strict=True)
        )
        yield f'<polyline stroke="{colour}" points="{" ".join(points)}"/>'
