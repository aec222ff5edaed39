"""`cks-admission serve|manage|place|unregister`: the processes of the service, and the end of its work."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from webhook import logs
from webhook.cli import options
from webhook.cli.output import InputError, ToolError, say
from webhook.configuration import roles
from webhook.configuration.settings import Settings, SettingsError
from webhook.registration.configurations import KINDS, POLICY_KINDS


@click.command("serve")
@options.config
@options.setting("--host", "listen.host", help="Address of the TLS port.")
@options.setting("--port", "listen.port", type=int, help="TLS port; 0 chooses a free one.")
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
@options.in_cluster
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
    help="Shadow policies, which decide nothing: what they would change is counted; repeatable.",
)
@options.setting(
    "--decision-log", "decisions.log", metavar="FILE|-", help="File of the decision log, or - for standard output."
)
@options.setting(
    "--log-level",
    "log.level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level that is logged.",
)
@options.setting("--log-format", "log.format", type=click.Choice(["auto", "json", "text"]), help="Log format.")
def serve(config: Path | None, **changes: Any) -> None:
    """Answer the API server's AdmissionReviews over TLS until SIGTERM.

    \b
    Examples:
      cks-admission serve
      cks-admission serve --config cks.yaml --tls-cert tls.crt --tls-key tls.key
      cks-admission serve --policies policies/
      cks-admission serve --policies policies/ --shadow changed/ --decision-log decisions.jsonl
      cks-admission serve --kubeconfig ~/.kube/config --register --webhook-url https://127.0.0.1:9443
    """
    _run("serve", roles.of_replica, config, changes)


@click.command("manage")
@options.apart
def manage(config: Path | None, **changes: Any) -> None:
    """Write to the cluster what replicas share, until SIGTERM: certificates and webhook configurations.

    It takes the same configuration as serve, in which manage.apart is true. One process works, the one that holds the
    Lease; others wait for it. None of them answers reviews.

    \b
    Example:
      cks-admission manage --config cks.yaml
    """
    _run("manage", roles.of_manager, config, changes)


@click.command("place")
@options.apart
def place(config: Path | None, **changes: Any) -> None:
    """Choose domains for gangs and open the gates of their Pods, until SIGTERM.

    It takes the same configuration as serve, in which place.apart is true. One process works, the one that holds the
    Lease; the others wait for it. None of them answers reviews.

    \b
    Example:
      cks-admission place --config cks.yaml
    """
    _run("place", roles.of_placer, config, changes)


@click.command("unregister")
@options.config
@options.kubeconfig
@options.in_cluster
def unregister(config: Path | None, **changes: Any) -> None:
    """Remove the webhook configurations and the policy from a cluster, whether or not the service runs.

    A running service does not write them again until manage, or what does its work, restarts.

    \b
    Example:
      cks-admission unregister --kubeconfig ~/.kube/config
    """
    from webhook.cluster.replicas import webhooks  # noqa: PLC0415 - loads the client

    settings = options.settings(config, changes, pipes=False)
    names = dict.fromkeys((*KINDS.values(), *POLICY_KINDS), settings.registration.name)
    lines = options.of_cluster(settings.cluster, lambda api: webhooks.unregister(api, names))
    say(*(lines or ["nothing to remove"]))


def _run(name: str, role: Callable[[Settings], Settings], config: Path | None, changes: dict[str, Any]) -> None:
    """Run a process until it ends. role: makes its settings of those given. Raises InputError and ToolError."""
    import uvloop  # noqa: PLC0415 - the help of a verb needs nothing of what follows

    from certs.errors import CertificateError  # noqa: PLC0415 - as above
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - as above
    from webhook.http.health import PortError  # noqa: PLC0415 - as above

    process = getattr(import_module(f"webhook.{name}"), name)
    settings = options.settings(config, changes, pipes=False)
    sink = logs.configure(settings.log.level, settings.log.format)
    try:
        uvloop.run(process(lambda: role(options.current(config, changes)), config, sink))
    except SettingsError as error:
        raise InputError(str(error)) from None
    except (CertificateError, ClusterError, PortError) as error:
        raise ToolError(str(error)) from None
