"""`cks-admission topology list|show|explain|place|queue|release|tree|doctor`."""

from __future__ import annotations

import click

from webhook.cli.topology import catalog, doctor, explain, place, queue, release, tree


@click.group("topology")
def command() -> None:
    """Show topologies, explain placements, show where gangs would start and which wait, draw Nodes as a tree."""


for verb in (
    catalog.list_command,
    catalog.show_command,
    *(one.command for one in (explain, place, queue, release, tree, doctor)),
):
    command.add_command(verb)
