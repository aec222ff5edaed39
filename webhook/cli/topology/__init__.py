"""`cks-admission topology list|show|explain|place|queue|release|tree|doctor`."""

from __future__ import annotations

import click

from webhook.cli.topology import gangs, tree


@click.group("topology")
def command() -> None:
    """Show topologies, explain placements, show where gangs would start and which wait, draw Nodes as a tree."""


for verb in (
    tree.list_command, tree.show_command, gangs.explain, gangs.place, gangs.queue, gangs.release, tree.tree_command,
    tree.doctor_command,
):  # fmt: skip
    command.add_command(verb)
