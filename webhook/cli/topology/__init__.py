"""`cks-admission topology list|show|explain|place|queue|release|tree|doctor`."""

from __future__ import annotations

import click

from webhook.cli.topology import explain, place, tree


@click.group("topology")
def command() -> None:
    """Show topologies, explain placements, show where gangs would start and which wait, draw Nodes as a tree."""


for verb in (
    tree.list_command,
    tree.show_command,
    explain.command,
    place.command,
    place.queue_command,
    place.release_command,
    tree.tree_command,
    tree.doctor_command,
):
    command.add_command(verb)
