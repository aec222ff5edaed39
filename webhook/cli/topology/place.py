"""`cks-admission topology place`."""

from __future__ import annotations

import sys
from typing import Any

import click

from webhook.cli import exits, options
from webhook.cli.output import write
from webhook.cli.topology import nodefiles
from webhook.cli.topology.context import read, subject
from webhook.cli.topology.placement import answer, gangs, text


@click.command("place", short_help="Say in which domain gangs would be placed, and what else was considered.")
@subject
@options.output
def command(output: str, **inputs: Any) -> None:
    """Say for each gang who keeps it together, in which domain, and what else was considered.

    Nodes decide with what their Pods leave free, and what was promised to workloads that were placed before. Objects
    are placed in their order: what the first one takes is not free for the next.

    \b
    Examples:
      kubectl get nodes,pods -A -o json > nodes.json
      cks-admission topology place -f train.yaml --nodes nodes.json
      cks-admission topology place -f train.yaml --kubeconfig ~/.kube/config -o json
    """
    objects, around = read(**inputs)
    if around.known.objects is None:
        click.echo(
            f"no domain is chosen without Nodes: give --kubeconfig, or --nodes with what {nodefiles.HOW} prints",
            err=True,
        )
    elif around.known.objects.pods is None:
        click.echo(f"without Pods all of the Nodes counts as free; {nodefiles.HOW} gives them", err=True)
    answers = [gangs.place(given, around) for given in objects]
    if output == "text":
        click.echo("\n".join(line for told in answers for line in text.text(told)))
    else:
        write([answer.data(gang, told.outcome) for told in answers for gang in told.gangs], output)
        for told in answers:
            if not (told.gangs or told.outcome.allowed):
                click.echo(f"{told.outcome.headline}\n{told.outcome.message}", err=True)
    sys.exit(exits.OK if all(told.fits for told in answers) else exits.REFUSED)
