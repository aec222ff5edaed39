"""`cks-admission topology list|show|explain|tree`."""

from __future__ import annotations

import click

from webhook.cli.topology import explain, listing, show, tree


@click.group("topology")
def command() -> None:
    """Show topologies, explain placements, draw Nodes as a tree with their free GPUs."""


command.add_command(listing.command)
command.add_command(show.command)
command.add_command(explain.command)
command.add_command(tree.command)
