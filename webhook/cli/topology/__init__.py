"""`cks-admission topology list|show|explain|tree`."""

from __future__ import annotations

import click

from webhook.cli.topology import catalog, explain, tree


@click.group("topology")
def command() -> None:
    """Show topologies, explain placements, draw Nodes as a tree with their free GPUs."""


command.add_command(catalog.list_command)
command.add_command(catalog.show_command)
command.add_command(explain.command)
command.add_command(tree.command)
