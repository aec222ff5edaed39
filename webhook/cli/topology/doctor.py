"""`cks-admission topology doctor`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import click

from policies.engine.violation import printable
from policies.topology.nodes.fabric import MEANINGS, Flaw, Kind, flaws
from policies.topology.topology import natural
from webhook.cli import exits, options
from webhook.cli.exits import InputError
from webhook.cli.output import counted, write
from webhook.cli.topology import inventory
from webhook.cli.topology.inventory import ClusterOptions

_NAMED = 8


@click.command("doctor", short_help="Say what the labels of Nodes show that is wrong with the network.")
@options.nodes
@inventory.cluster
@options.config
@options.output
def command(nodes: tuple[str, ...], kubeconfig: str, config: Path | None, output: str, *, in_cluster: bool) -> None:
    """Say what is wrong with the network behind Nodes, by their labels.

    Found are links that are slower than expected, ports with another neighbor, leafgroups in two superpods, labels that
    are half set, and backend and ib labels that do not say the same. Exits with 1 if something is found.

    \b
    Examples:
      kubectl get nodes -o json | cks-admission topology doctor --nodes -
      cks-admission topology doctor --kubeconfig ~/.kube/config -o json
    """
    where = ClusterOptions(kubeconfig, in_cluster)
    if bool(nodes) == any(where):
        raise click.UsageError(
            "give the Nodes: --nodes FILE with what kubectl get nodes -o json prints, or a cluster by --kubeconfig"
        )
    known = inventory.read(options.settings(config, {}), where, nodes).nodes
    if not known:
        raise InputError("the cluster has no Nodes")
    groups = _grouped(flaws(known))
    if output == "text":
        click.echo("\n".join(_text(groups, len(known))))
    else:
        found = [{"kind": flaw.kind, "text": flaw.text, "nodes": names} for flaw, names in groups.items()]
        data: dict[str, Any] = {"nodes": len(known), "flaws": found}
        write(data, output)
    sys.exit(exits.REFUSED if groups else exits.OK)


def _grouped(flawed: Mapping[str, Iterable[Flaw]]) -> dict[Flaw, list[str]]:
    """The Nodes of each flaw, kind by kind."""
    groups: dict[Flaw, list[str]] = {}
    for name in sorted(flawed, key=natural):
        for flaw in flawed[name]:
            groups.setdefault(flaw, []).append(name)
    kinds = get_args(Kind)
    return dict(sorted(groups.items(), key=lambda item: (kinds.index(item[0].kind), item[0].text)))


def _text(groups: Mapping[Flaw, list[str]], nodes: int) -> Iterator[str]:
    """A paragraph for each kind of flaw, with the Nodes of each."""
    flawed = len({name for names in groups.values() for name in names})
    told = f"{flawed:,} with a flaw of the network" if groups else "no flaws of the network"
    yield f"{counted(nodes, 'Node')}, {told}"
    last = ""
    for flaw, names in groups.items():
        if flaw.kind != last:
            yield click.style(f"{flaw.kind}: {MEANINGS[flaw.kind]}", bold=True)
            last = flaw.kind
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        shown = ", ".join(map(printable, names[:_NAMED]))
        yield f"  {printable(flaw.text)} ({counted(len(names), 'Node')}: {shown}{more})"
