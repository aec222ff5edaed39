"""Draws what `check` prints on a terminal: `PYTHONPATH=tests python -m support.picture` makes docs/refusal.svg."""

from __future__ import annotations

import re
from html import escape

from click.testing import CliRunner
from support.shown import ROOT

from webhook.cli.main import main

PICTURE = ROOT / "docs" / "refusal.svg"
_COMMAND = ["check", "examples/"]
_CODE = re.compile(r"\x1b\[(\d+)m")
_CLASSES = {"1": "strong", "31": "red", "32": "green", "33": "yellow"}
_LETTER, _MARGIN, _LINE = 8.2, 20, 20  # the widest letter of 13.5 px, in pixels
_STYLE = """text { font: 13.5px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; fill: #d8dee9; white-space: pre; }
.strong { font-weight: 700; } .red { fill: #ff7b72; } .green { fill: #7ee787; } .yellow { fill: #e3b341; }"""


def printed() -> str:
    """What the command prints in colours, below the command."""
    return (
        f"\x1b[1m$ cks-admission {' '.join(_COMMAND)}\x1b[0m\n" + CliRunner().invoke(main, _COMMAND, color=True).stdout
    )


def drawn(text: str) -> str:
    """An SVG of a terminal with a text, whose colours are those of ECMA-48."""
    lines = text.splitlines()
    width = 2 * _MARGIN + int(_LETTER * max(len(_CODE.sub("", line)) for line in lines))
    height = 2 * _MARGIN + _LINE * len(lines)
    size = f'width="{width}" height="{height}"'
    rows = "\n".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + _LINE * row + 14}" xml:space="preserve">{_spans(line)}</text>'
        for row, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>{escape(_CODE.sub('', lines[0]))}</title>\n<style>\n{_STYLE}\n</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>\n{rows}\n</svg>\n'
    )


def _spans(line: str) -> str:
    classes: list[str] = []
    spans = ""
    for index, part in enumerate(_CODE.split(line)):
        if index % 2:
            classes = [*classes, _CLASSES[part]] if part != "0" else []
        elif part:
            spans += f'<tspan class="{" ".join(classes)}">{escape(part)}</tspan>' if classes else escape(part)
    return spans


if __name__ == "__main__":
    PICTURE.write_text(drawn(printed()), encoding="utf-8")
