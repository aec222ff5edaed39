"""The page of the documentation that runs write into: marked blocks, which they replace."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cluster.programs import kubernetes_version, release

from webhook.version import VERSION

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


class NoBlockError(ValueError):
    """The page has no block of a name."""


def block(page: str, name: str) -> list[str]:
    """The lines of a block. Raises NoBlockError."""
    return _parts(page, name)[1].splitlines()


def replaced(page: str, name: str, lines: Iterable[str]) -> str:
    """The page with other lines in a block. Raises NoBlockError."""
    before, _, after = _parts(page, name)
    return before + "\n".join(["", *lines, ""]) + after


def conditions() -> str:
    """What a run ran on, in a few words."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, cks-admission {VERSION}, Kubernetes {kubernetes_version(release())}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores "
        f"with a load average of {os.getloadavg()[2]:.1f}"
    )


def _parts(page: str, name: str) -> tuple[str, str, str]:
    """The page to the end of the first mark, what is between the marks, and the rest."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.partition(begin)
    inside, closed, after = rest.partition(end)
    if not found or not closed:
        raise NoBlockError(f"there is no block between {begin} and {end}")
    return before + begin, inside, end + after
