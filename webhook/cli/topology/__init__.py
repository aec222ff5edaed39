"""`cks-admission topology list|show|explain|place|tree`."""

from __future__ import annotations

import click

from webhook.cli.topology import catalog, explain, place, tree


@click.group("topology")
def command() -> None:
    """Show topologies, explain placements, place gangs, draw Nodes as a tree with their free GPUs."""


for verb in (catalog.list_command, catalog.show_command, explain.command, place.command, tree.command):
    command.add_command(verb)
