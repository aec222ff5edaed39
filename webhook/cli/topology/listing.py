"""`cks-admission topology list`."""

from __future__ import annotations

from pathlib import Path

import click

from webhook.cli import options
from webhook.cli.output import write
from webhook.cli.topology import sources
from webhook.cli.topology.sources import Cluster
from webhook.cli.topology.words import table


@click.command("list", short_help="List the topologies that are known.")
@sources.cluster
@options.config
@options.output
def command(kubeconfig: str, config: Path | None, output: str, *, in_cluster: bool) -> None:
    """List the topologies that are known: built in, configured, and those of a cluster.

    \b
    Examples:
      cks-admission topology list
      cks-admission topology list --config cks.yaml --kubeconfig ~/.kube/config
    """
    settings = options.settings(config, {})
    found = sources.see(settings, Cluster(kubeconfig, in_cluster), nodes=False).catalog.by_name.values()
    if output == "text":
        rows = [(each.name, each.source, each.called_all(each.levels)) for each in found]
        click.echo("\n".join(table(("NAME", "SOURCE", "LEVELS, FARTHEST FIRST"), rows)))
        return
    write(
        [
            {
                "name": each.name,
                "source": each.source,
                "inCluster": each.in_cluster,
                "levels": list(map(each.called, each.levels)),
            }
            for each in found
        ],
        output,
    )
