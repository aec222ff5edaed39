"""The GPUs of each run over time, a panel each: at work, and held by gangs that wait for the rest of their Pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.placement.history import History, Moment
from benchmarks.placement.stream import TOTAL

_WIDTH, _HEIGHT = 720.0, 90.0
_LEFT, _RIGHT, _TOP, _GAP = 56.0, 24.0, 84.0, 46.0
_LABELS = 6  # of times below a panel, at most
# Blue and orange of the palette by Okabe and Ito, which people tell apart who do not see all colours.
_COLOURS = {"at work": "#0072b2", "held by gangs that wait": "#d55e00"}
_STYLE = """
text { font-family: Inter, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2933; }
.quiet { fill: #52606d; font-size: 11px; }
.axis { stroke: #cbd2d9; }
"""


def draw(histories: Mapping[str, History]) -> str:
    """The picture as the text of an SVG file. histories: by what the scheduler was told."""
    end = max(history.seconds for history in histories.values())
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + len(histories) * (_HEIGHT + _GAP) - _GAP / 2
    size = f'width="{width:g}" height="{height:g}"'
    title = f"{TOTAL} GPUs under one stream of gangs, by what the scheduler is told"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect {size} fill="#ffffff"/>',
        f'<text x="{_LEFT:g}" y="24" font-size="15">{title}</text>',
        *_legend(),
    ]
    for number, (name, history) in enumerate(histories.items()):
        lines += [f'<g transform="translate({_LEFT:g} {_TOP + number * (_HEIGHT + _GAP):g})">']
        lines += [*_panel(name, list(history.moments()), end), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _legend() -> Iterator[str]:
    at = _LEFT
    for name, colour in _COLOURS.items():
        yield f'<rect x="{at:g}" y="38" width="10" height="10" fill="{colour}"/>'
        yield f'<text class="quiet" x="{at + 15:g}" y="47">{name}</text>'
        at += 90


def _panel(name: str, moments: Sequence[Moment], end: float) -> Iterator[str]:
    yield f'<text x="0" y="-8" font-size="12">{name}</text>'
    working = [(moment.at, moment.working) for moment in moments]
    both = [(moment.at, moment.working + moment.held) for moment in moments]
    for series, colour in zip((both, working), reversed(_COLOURS.values()), strict=True):
        points = " ".join(f"{_WIDTH * at / end:.1f},{_HEIGHT * (1 - value / TOTAL):.1f}" for at, value in series)
        last = _WIDTH * series[-1][0] / end
        yield f'<polygon fill="{colour}" points="0,{_HEIGHT:g} {points} {last:.1f},{_HEIGHT:g}"/>'
    for share in (0.0, 0.5, 1.0):
        y = _HEIGHT * (1 - share)
        yield f'<line class="axis" x1="0" y1="{y:g}" x2="{_WIDTH:g}" y2="{y:g}"/>'
        yield f'<text class="quiet" x="-8" y="{y + 4:g}" text-anchor="end">{TOTAL * share:.0f}</text>'
    for seconds in _times(end):
        x = _WIDTH * seconds / end
        yield f'<line class="axis" x1="{x:.1f}" y1="{_HEIGHT:g}" x2="{x:.1f}" y2="{_HEIGHT + 4:g}"/>'
        yield f'<text class="quiet" x="{x:.1f}" y="{_HEIGHT + 16:g}" text-anchor="middle">{seconds:g} s</text>'


def _times(end: float) -> Sequence[int]:
    """Round times from nothing to the end, the same distance apart."""
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in steps if end // step < _LABELS)
    return range(0, int(end) + 1, step)
