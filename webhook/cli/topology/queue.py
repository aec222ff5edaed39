"""`cks-admission topology queue`: the gangs that wait, in the order in which they are tried."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.cli import options
from webhook.cli.exits import InputError
from webhook.cli.output import table, write
from webhook.cli.topology import inventory
from webhook.cli.topology.inventory import ClusterOptions

if TYPE_CHECKING:
    from policies.topology.placer.placer import Waiting

_HEAD = ("GANG", "LEVEL", "PODS", "WAITS", "KEPT FREE")


@click.command("queue")
@inventory.cluster
@options.output
@options.config
def command(kubeconfig: str, in_cluster: bool, output: str, config: Path | None) -> None:  # noqa: FBT001 - a flag of click
    """Show which gangs wait in a cluster: for what, since when, behind whom, and which domain is kept free.

    It reads the cluster once, decides as the placer does, and changes nothing.

    \b
    Example:
      cks-admission topology queue --kubeconfig ~/.kube/config
    """
    if not (kubeconfig or in_cluster):
        raise InputError("which cluster? Give --kubeconfig FILE, or --in-cluster in a Pod")
    settings = options.settings(config, {})
    known = inventory.read(settings, ClusterOptions(kubeconfig, in_cluster), (), "everything")
    now = time.time()
    queue = known.placer(settings).look(now).queue
    if output != "text":
        write([_as_json(one) for one in queue], output)
        return
    if not queue:
        click.echo("no gang waits")
        return
    rows = [(*_row(one, now), one.kept) for one in queue]
    for line, waiting in zip(table(_HEAD, rows, right=(2, 3)), [None, *queue], strict=True):
        click.echo(line)
        if waiting is not None:
            click.echo(f"  {waiting.reason}")


def _row(waiting: Waiting, now: float) -> tuple[str, str, str, str]:
    about = waiting.about
    pods = f"{waiting.existing}/{waiting.pods}" if waiting.existing < waiting.pods else str(waiting.pods)
    return f"{about.kind} {about.namespace}/{about.name}", waiting.level, pods, _span(now - waiting.since)


def _span(seconds: float) -> str:
    """A span of time as kubectl shows ages."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def _as_json(waiting: Waiting) -> dict[str, Any]:
    about = waiting.about
    return {
        "gang": {"apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace, "name": about.name},
        "position": waiting.position,
        "behind": waiting.behind,
        "level": waiting.level,
        "required": waiting.required,
        "pods": waiting.pods,
        "existing": waiting.existing,
        "since": waiting.since,
        "keptFree": waiting.kept,
        "overdue": waiting.overdue,
        "reason": waiting.reason,
    }
