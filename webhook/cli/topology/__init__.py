"""`cks-admission topology list|show|explain|place|tree|doctor`."""

from __future__ import annotations

import click

from webhook.cli.topology import catalog, doctor, explain, place, tree


@click.group("topology")
def command() -> None:
    """Show topologies, explain placements, place gangs, draw Nodes as a tree, look for flaws of the network."""


for verb in (catalog.list_command, catalog.show_command, explain.command, place.command, tree.command, doctor.command):
    command.add_command(verb)
