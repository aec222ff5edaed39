"""`cks-admission serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import uvloop

from certs.errors import CertificateError
from webhook import logs
from webhook.cli import options
from webhook.cli.exits import InputError, ToolError
from webhook.cluster.errors import ClusterError
from webhook.serve import PortError, serve
from webhook.settings import SettingsError


@click.command("serve")
@options.config
@options.setting("--host", "listen.host", help="Address of the TLS port.")
@options.setting("--port", "listen.port", type=int, help="TLS port; 0 takes a free one.")
@options.setting("--health-host", "health.host", help="Address of the port for probes and metrics.")
@options.setting("--health-port", "health.port", type=int, help="Port of /livez, /readyz and /metrics.")
@options.setting("--tls-cert", "tls.certFile", help="Certificate chain, PEM, watched for changes.")
@options.setting("--tls-key", "tls.keyFile", help="Its private key, PEM.")
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
def command(config: Path | None, **changes: Any) -> None:
    """Answer the API server's AdmissionReviews over TLS until SIGTERM.

    \b
    Examples:
      cks-admission serve
      cks-admission serve --config cks.yaml --tls-cert tls.crt --tls-key tls.key
      cks-admission serve --policies policies/
      cks-admission serve --kubeconfig ~/.kube/config --register --webhook-url https://127.0.0.1:9443
    """
    settings = options.settings(config, changes)
    logs.configure(settings.log.level, settings.log.format)
    try:
        uvloop.run(serve(settings))
    except SettingsError as error:
        raise InputError(str(error)) from None
    except (CertificateError, ClusterError, PortError) as error:
        raise ToolError(str(error)) from None
