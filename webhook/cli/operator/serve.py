"""`cks-admission serve`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from webhook import logs
from webhook.cli import options
from webhook.cli.exits import InputError, ToolError
from webhook.configuration import roles
from webhook.configuration.settings import Settings, SettingsError
from webhook.sink import Sink


@click.command("serve")
@options.config
@options.setting("--host", "listen.host", help="Address of the TLS port.")
@options.setting("--port", "listen.port", type=int, help="TLS port; 0 chooses a free one.")
@options.setting(
    "--workers",
    "listen.workers",
    type=int,
    help="Number of processes that share the TLS port; those that fail are restarted.",
)
@options.setting("--health-host", "health.host", help="Address of the port for probes and metrics.")
@options.setting("--health-port", "health.port", type=int, help="Port of /livez, /readyz and /metrics.")
@options.setting("--tls-cert", "tls.certFile", help="Certificate chain (PEM); reloaded when it changes.")
@options.setting("--tls-key", "tls.keyFile", help="Private key of the certificate (PEM).")
@options.setting(
    "--client-ca",
    "tls.clientCaFile",
    help="CA bundle (PEM); callers must present a certificate signed by one of these CAs.",
)
@options.setting("--certs-dir", "tls.directory", help="Directory for the certificates that the service issues itself.")
@options.setting("--kubeconfig", "cluster.kubeconfig", help="Kubeconfig of the cluster to watch.")
@options.setting("--in-cluster", "cluster.inCluster", is_flag=True, help="Use the Pod's service account.")
@options.setting(
    "--register",
    "registration.apply",
    is_flag=True,
    help="Write the webhook configurations to the cluster and keep them up to date.",
)
@options.setting("--webhook-url", "registration.url", help="Base URL of the service if it runs outside the cluster.")
@options.policies
@options.setting(
    "--shadow",
    "policies.shadow",
    multiple=True,
    metavar="FILE|DIR",
    help="Policies that decide nothing: what they would change is counted; repeatable.",
)
@options.setting(
    "--decision-log", "decisions.log", metavar="FILE|-", help="Where decisions are recorded; - for standard output."
)
@options.setting(
    "--log-level",
    "log.level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level that is logged.",
)
@options.setting("--log-format", "log.format", type=click.Choice(["auto", "json", "text"]), help="Log format.")
@click.option(
    "--worker", type=(int, Path), hidden=True, help="Run as the worker with this number and this health socket."
)
def command(config: Path | None, worker: tuple[int, Path] | None, **changes: Any) -> None:
    """Answer the API server's AdmissionReviews over TLS until SIGTERM.

    \b
    Examples:
      cks-admission serve
      cks-admission serve --config cks.yaml --tls-cert tls.crt --tls-key tls.key
      cks-admission serve --policies policies/
      cks-admission serve --policies policies/ --shadow changed/ --decision-log decisions.jsonl
      cks-admission serve --config cks.yaml --workers 4
      cks-admission serve --kubeconfig ~/.kube/config --register --webhook-url https://127.0.0.1:9443
    """
    settings = options.settings(config, changes)
    sink = logs.configure(settings.log.level, settings.log.format)
    try:
        if settings.listen.workers > 1 and worker is None:
            _supervise(settings, sink)
        else:
            _serve(lambda: roles.of_replica(options.current(config, changes)), config, worker, sink)
    except SettingsError as error:
        raise InputError(str(error)) from None


def _serve(read: Callable[[], Settings], config: Path | None, worker: tuple[int, Path] | None, sink: Sink) -> None:
    """Serve in this process, with the settings that `read` gives now and when the file changes."""
    import uvloop  # noqa: PLC0415 - the supervisor needs nothing of what answers reviews, and stays small

    from certs.errors import CertificateError  # noqa: PLC0415 - as above
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - as above
    from webhook.http.ports import PortError  # noqa: PLC0415 - as above
    from webhook.process import end_with_supervisor, mark_logs  # noqa: PLC0415 - as above
    from webhook.serve import serve  # noqa: PLC0415 - as above

    async def work(number: int, socket: Path) -> None:
        mark_logs(number)
        end_with_supervisor()
        await serve(read, config, str(socket), sink, number)

    try:
        uvloop.run(work(*worker) if worker else serve(read, config, log_lines=sink))
    except (CertificateError, ClusterError, PortError) as error:
        raise ToolError(str(error)) from None


def _supervise(settings: Settings, sink: Sink) -> None:
    """Serve in several processes, each of which has this one's command line and knows that it is a worker."""
    from webhook.workers.supervisor import StartError, SupervisorError, supervise  # noqa: PLC0415 - for several workers only

    form = "text" if settings.log.format == "auto" and sys.stderr.isatty() else settings.log.format

    def worker(number: int, socket: Path, port: int) -> list[str]:
        # What comes last on a command line holds. Workers write to a pipe, and see no terminal.
        where = ["--worker", str(number), str(socket), "--host", settings.listen.host, "--port", str(port)]
        return [sys.executable, *sys.orig_argv[1:], *where, "--log-format", form]

    try:
        asyncio.run(supervise(settings, worker, sink))
    except StartError as error:
        raise click.exceptions.Exit(error.code) from None
    except SupervisorError as error:
        raise ToolError(str(error)) from None
