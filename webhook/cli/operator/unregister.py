"""`cks-admission unregister`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from webhook.cli import options
from webhook.cli.exits import ToolError
from webhook.configuration.settings import Settings
from webhook.registration.configurations import KINDS


@click.command("unregister")
@options.config
@options.setting("--kubeconfig", "cluster.kubeconfig", help="Kubeconfig of the cluster.")
@options.setting("--in-cluster", "cluster.inCluster", is_flag=True, help="Use the Pod's service account.")
def command(config: Path | None, **changes: Any) -> None:
    """Remove the webhook configurations from a cluster, whether or not the service runs.

    A running service does not write them again until manage, or what does its work, restarts.

    \b
    Example:
      cks-admission unregister --kubeconfig ~/.kube/config
    """
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - loads the client

    settings = options.settings(config, changes)
    try:
        removed = asyncio.run(_unregister(settings))
    except ClusterError as error:
        raise ToolError(str(error)) from None
    for line in removed or ["nothing to remove"]:
        click.echo(line)


async def _unregister(settings: Settings) -> list[str]:
    from webhook.cluster.api.client import connect  # noqa: PLC0415
    from webhook.cluster.replicas.registration import unregister  # noqa: PLC0415

    api = await connect(
        settings.cluster.kubeconfig or None, settings.cluster.in_cluster, settings.cluster.service_account
    )
    try:
        return await unregister(api, dict.fromkeys(KINDS.values(), settings.registration.name))
    finally:
        await api.close()
