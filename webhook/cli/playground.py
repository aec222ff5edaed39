"""`cks-admission playground`."""

from __future__ import annotations

import socket

import click

from webhook.cli.output import ToolError, say


@click.command("playground")
@click.option("--port", default=8484, show_default=True, type=click.IntRange(1, 65535), help="Port on 127.0.0.1.")
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="Cluster whose Nodes, Pods and gangs are shown; only read."
)
@click.option("--no-browser", "hidden", is_flag=True, help="Open no browser.")
def command(port: int, kubeconfig: str, *, hidden: bool) -> None:
    """Open a page on which policies are tried on objects, and gangs on Nodes. No cluster is needed.

    It comes with the extra `playground`: pip install 'cks-admission[playground]'. It serves on 127.0.0.1 to
    whoever has the address that it prints, and ends with Ctrl-C.

    \b
    Examples:
      cks-admission playground
      cks-admission playground --port 9000 --no-browser
      cks-admission playground --kubeconfig ~/.kube/config
    """
    from webhook.playground import page  # noqa: PLC0415 - the help of a verb needs none of this

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ToolError(f"port {port} cannot be used: {error.strerror}; choose another one with --port") from None
    page.serve(port, kubeconfig, show=not hidden, ready=lambda address: say(f"the playground is at {address}"))
