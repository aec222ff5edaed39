"""`cks-admission topology queue` and `release`: the gangs that wait, and an end to their waiting."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.cli import options
from webhook.cli.exits import InputError
from webhook.cli.output import counted, say, table, write
from webhook.cli.topology import inventory
from webhook.configuration.settings import ClusterSettings

if TYPE_CHECKING:
    from policies.topology.placer.placer import Subject, Waiting
    from webhook.cluster.api.client import Connection

_HEAD = ("GANG", "LEVEL", "PODS", "WAITS", "KEPT FREE")
_WHICH = "which cluster? Give --kubeconfig FILE, or --in-cluster in a Pod"
_FITS = "If it stays here, no placer works: cks-admission doctor says what is wrong."


@click.command("queue")
@inventory.cluster
@options.output
@options.config
def queue_command(where: ClusterSettings, output: str, config: Path | None) -> None:
    """Show which gangs wait in a cluster: for what, since when, behind whom, and which domain is kept free.

    It reads the cluster once, decides as the placer does, and changes nothing. Gangs that fit now come first: the
    placer opens them within a second. One that stays there shows that no placer works.

    \b
    Example:
      cks-admission topology queue --kubeconfig ~/.kube/config
    """
    if not where.is_given:
        raise InputError(_WHICH)
    settings = options.settings(config, {})
    known = inventory.read(settings, where, (), "everything")
    now = time.time()
    look = known.placer(settings).look(now)
    if output != "text":
        fits = [
            {
                "gang": _gang(one.about),
                "position": 0,
                "level": one.level,
                "pods": one.pods,
                "existing": one.pods,
                "since": now - one.seconds,
                "fits": one.message,
            }
            for one in look.placed
        ]
        write([*fits, *map(_waiting, look.queue)], output)
        return
    if not (look.placed or look.queue):
        say("no gang waits")
        return
    rows, reasons = [], []
    for placed in look.placed:
        rows.append((_called(placed.about), placed.level, str(placed.pods), _span(placed.seconds), ""))
        reasons.append(f"It fits now: {placed.message.rstrip('.')}. {_FITS}")
    for one in look.queue:
        pods = f"{one.existing}/{one.pods}" if one.existing < one.pods else str(one.pods)
        rows.append((_called(one.about), one.level, pods, _span(now - one.since), one.kept))
        reasons.append(one.reason)
    first, *lines = table(_HEAD, rows, right=(2, 3))
    say(first)
    for line, reason in zip(lines, reasons, strict=True):
        say(line, f"  {reason}")


def _called(about: Subject) -> str:
    return f"{about.kind} {about.namespace}/{about.name}"


def _span(seconds: float) -> str:
    """A span of time as kubectl shows ages."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def _gang(about: Subject) -> dict[str, str]:
    return {"apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace, "name": about.name}


def _waiting(waiting: Waiting) -> dict[str, Any]:
    return {
        "gang": _gang(waiting.about),
        **{name: getattr(waiting, name) for name in ("position", "behind", "level", "required", "pods", "existing")},
        "since": waiting.since,
        "keptFree": waiting.kept,
        "overdue": waiting.overdue,
        "reason": waiting.reason,
    }


@click.command("release")
@inventory.cluster
@click.option("-n", "--namespace", default="", help="Only Pods of this Namespace.")
@click.option("--service-account", default="", metavar="DIRECTORY", help="Where token and ca.crt are, if elsewhere.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def release_command(where: ClusterSettings, namespace: str, service_account: str, *, yes: bool) -> None:
    """Open the gates of all Pods that wait for the placer, without placing them.

    The Pods then go to any Node that has room, and may leave their gang. Use it for a cluster that goes on without a
    placer; uninstalling the chart does it.

    \b
    Example:
      cks-admission topology release --kubeconfig ~/.kube/config
    """
    if not where.is_given:
        raise InputError(_WHICH)
    from webhook.cluster.placer.gates import gated, release  # noqa: PLC0415 - loads the client

    async def open_all(api: Connection) -> int:
        pods = await gated(api, namespace)
        if pods and not yes and sys.stdin.isatty():
            click.confirm(f"Open the gates of {counted(len(pods), 'Pod')}, wherever these then go?", abort=True)
        opened = 0
        for pod in pods:
            if await release(api, pod):
                opened += 1
                say(f"{pod.namespace}/{pod.name}")
        return opened

    account = where.model_copy(update={"service_account": service_account})
    say(f"{counted(options.of_cluster(account, open_all), 'gate')} opened")
