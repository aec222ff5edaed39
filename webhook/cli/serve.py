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
from webhook.configuration.settings import Settings, SettingsError


@click.command("serve")
@options.config
@options.setting("--host", "listen.host", help="Address of the TLS port.")
@options.setting("--port", "listen.port", type=int, help="TLS port; 0 takes a free one.")
@options.setting(
    "--workers", "listen.workers", type=int, help="Processes that share the TLS port, restarted if need be."
)
@options.setting("--health-host", "health.host", help="Address of the port for probes and metrics.")
@options.setting("--health-port", "health.port", type=int, help="Port of /livez, /readyz and /metrics.")
@options.setting("--tls-cert", "tls.certFile", help="Certificate chain, PEM, watched for changes.")
@options.setting("--tls-key", "tls.keyFile", help="Its private key, PEM.")
@options.setting("--client-ca", "tls.clientCaFile", help="CAs, PEM: callers need a certificate of one of them.")
@options.setting("--certs-dir", "tls.directory", help="Where the service keeps certificates of its own.")
@options.setting("--kubeconfig", "cluster.kubeconfig", help="Cluster to read Namespaces, Nodes and claims from.")
@options.setting("--in-cluster", "cluster.inCluster", is_flag=True, help="Use the Pod's service account.")
@options.setting(
    "--register", "registration.apply", is_flag=True, help="Write the webhook configurations to the cluster."
)
@options.setting("--webhook-url", "registration.url", help="Base URL to register, for a service outside the cluster.")
@options.policies
@options.setting(
    "--log-level", "log.level", type=click.Choice(["debug", "info", "warning", "error"]), help="Least level logged."
)
@options.setting("--log-format", "log.format", type=click.Choice(["auto", "json", "text"]), help="Form of the logs.")
@click.option(
    "--worker", type=(int, Path), hidden=True, help="Be a worker of this number, with this socket for health."
)
def command(config: Path | None, worker: tuple[int, Path] | None, **changes: Any) -> None:
    """Answer the API server's AdmissionReviews over TLS until SIGTERM.

    \b
    Examples:
      cks-admission serve
      cks-admission serve --config cks.yaml --tls-cert tls.crt --tls-key tls.key
      cks-admission serve --policies policies/
      cks-admission serve --config cks.yaml --workers 4
      cks-admission serve --kubeconfig ~/.kube/config --register --webhook-url https://127.0.0.1:9443
    """
    settings = options.settings(config, changes)
    logs.configure(settings.log.level, settings.log.format)
    try:
        if settings.listen.workers > 1 and worker is None:
            _supervise(settings)
        else:
            _serve(lambda: options.current(config, changes), config, worker)
    except SettingsError as error:
        raise InputError(str(error)) from None


def _serve(read: Callable[[], Settings], config: Path | None, worker: tuple[int, Path] | None) -> None:
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
        await serve(read, config, str(socket))

    try:
        uvloop.run(work(*worker) if worker else serve(read, config))
    except (CertificateError, ClusterError, PortError) as error:
        raise ToolError(str(error)) from None


def _supervise(settings: Settings) -> None:
    """Serve in several processes, each of which has this one's command line and knows that it is a worker."""
    from webhook.workers.supervisor import StartError, SupervisorError, supervise  # noqa: PLC0415 - for several workers only

    form = "text" if settings.log.format == "auto" and sys.stderr.isatty() else settings.log.format

    def worker(number: int, socket: Path, port: int) -> list[str]:
        # What comes last on a command line holds. Workers write to a pipe, and see no terminal.
        where = ["--worker", str(number), str(socket), "--host", settings.listen.host, "--port", str(port)]
        return [sys.executable, *sys.orig_argv[1:], *where, "--log-format", form]

    try:
        asyncio.run(supervise(settings, worker))
    except StartError as error:
        raise click.exceptions.Exit(error.code) from None
    except SupervisorError as error:
        raise ToolError(str(error)) from None
