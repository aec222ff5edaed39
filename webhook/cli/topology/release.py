"""`cks-admission topology release`: opens the gates of all Pods that wait."""

from __future__ import annotations

import asyncio
import sys

import click

from webhook.cli.exits import InputError, ToolError
from webhook.cli.output import counted
from webhook.cli.topology import inventory


@click.command("release")
@inventory.cluster
@click.option("-n", "--namespace", default="", help="Only Pods of this Namespace.")
@click.option("--service-account", default="", metavar="DIRECTORY", help="Where token and ca.crt are, if elsewhere.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(kubeconfig: str, namespace: str, service_account: str, *, in_cluster: bool, yes: bool) -> None:
    """Open the gates of all Pods that wait for the placer, without placing them.

    The Pods then go to any Node that has room; those of one gang need not be together. It is for a cluster in which no
    placer is to run any more: uninstalling the chart does it.

    \b
    Example:
      cks-admission topology release --kubeconfig ~/.kube/config
    """
    if not (kubeconfig or in_cluster):
        raise InputError("which cluster? Give --kubeconfig FILE, or --in-cluster in a Pod")
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - loads the client

    try:
        opened = asyncio.run(
            _release(kubeconfig, service_account, in_cluster=in_cluster, namespace=namespace, ask=not yes)
        )
    except ClusterError as error:
        raise ToolError(str(error)) from None
    click.echo(f"{counted(opened, 'gate')} opened")


async def _release(kubeconfig: str, account: str, *, in_cluster: bool, namespace: str, ask: bool) -> int:
    """How many gates were opened. Raises ClusterError."""
    from webhook.cluster.api.client import connect  # noqa: PLC0415 - as above
    from webhook.cluster.placer.release import gated, release  # noqa: PLC0415 - as above

    api = await connect(kubeconfig or None, in_cluster, account)
    try:
        pods = await gated(api, namespace)
        if ask and pods and sys.stdin.isatty():
            click.confirm(f"Open the gates of {counted(len(pods), 'Pod')}, wherever these then go?", abort=True)
        opened = 0
        for pod in pods:
            if await release(api, pod):
                opened += 1
                click.echo(f"{pod.namespace}/{pod.name}")
    finally:
        await api.close()
    return opened
