"""Reads the case files beside this one; `policies.cel.cases` knows their form."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from policies.cel.cases import CelCase, cases

HERE = Path(__file__).parent


def files() -> list[Path]:
    """The recorded files."""
    return sorted(HERE.glob("*.yaml"))


@cache
def read(path: Path) -> tuple[CelCase, ...]:
    """The cases of one file, which is parsed once for all tests."""
    return cases(yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader))
