"""What an audit is asked for."""

from __future__ import annotations

from typing import Final, NamedTuple

from webhook.audit.part import Part
from webhook.configuration.settings import Settings

REPORTS: Final = "reports"
"""The output that is written into the cluster."""


class Inquiry(NamedTuple):
    """What is to be audited, and how it is printed. files: paths; empty for a cluster."""

    settings: Settings
    files: tuple[str, ...]
    ignore: tuple[str, ...]
    kubeconfig: str
    namespaces: tuple[str, ...]
    kinds: tuple[str, ...]
    qps: float
    part: Part
    journal: str
    output: str
    quiet: bool
    strict: bool
