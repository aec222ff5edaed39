"""The pages for those who were refused: docs/refused in the repository, a folder beside this module in the wheel."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from policies.engine.violation import Section

_HERE = Path(__file__).parent
_HEADING = re.compile(r"^## ([a-z0-9-]+)$", re.MULTILINE)
_MESSAGES = re.compile(r"\A\s*```text\n(.*?)```", re.DOTALL)


def folder() -> Path:
    """Where the pages are."""
    installed = _HERE / "pages"
    return installed if installed.is_dir() else _HERE.parents[1] / "docs" / "refused"


@cache
def sections() -> tuple[Section, ...]:
    """The sections of all pages: those whose first block quotes messages."""
    known: list[Section] = []
    for path in sorted(folder().glob("*.md")):
        if path.stem == "index":
            continue
        parts = _HEADING.split(path.read_text(encoding="utf-8"))
        for code, body in zip(parts[1::2], parts[2::2], strict=True):
            quoted = _MESSAGES.match(body)
            messages = tuple(line for line in (quoted[1] if quoted else "").splitlines() if line)
            known.append(Section(path.stem, code, messages, body.strip()))
    return tuple(known)
