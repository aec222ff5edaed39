"""What an audit is asked for."""

from __future__ import annotations

from typing import NamedTuple

from webhook.configuration.settings import Settings


class Inquiry(NamedTuple):
    """What is to be audited, and how it is printed. files: paths; empty for a cluster."""

    settings: Settings
    files: tuple[str, ...]
    ignore: tuple[str, ...]
    kubeconfig: str
    namespaces: tuple[str, ...]
    kinds: tuple[str, ...]
    qps: float
    journal: str
    output: str
    quiet: bool
    strict: bool
