"""Reads logs with one JSON object per line while a process still writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def entries(log: Path, since: int = 0) -> list[dict[str, Any]]:
    """Return the objects; lines that hold none, and a last one that is written just now, are left out.

    since: how many bytes at the beginning are left out.
    """
    whole, _, _ = log.read_bytes()[since:].decode().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]


def events(log: Path, name: str) -> list[dict[str, Any]]:
    """Return what a service logged under a name."""
    return [entry for entry in entries(log) if entry["event"] == name]
