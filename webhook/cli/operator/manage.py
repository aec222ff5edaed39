"""`cks-admission manage`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from webhook import logs
from webhook.cli import options
from webhook.cli.exits import InputError, ToolError
from webhook.configuration import roles
from webhook.configuration.settings import SettingsError


@click.command("manage")
@options.apart
def command(config: Path | None, **changes: Any) -> None:
    """Write to the cluster what replicas share, until SIGTERM: certificates and webhook configurations.

    It takes the same configuration as serve, in which manage.apart is true. One process works, the one that holds the
    Lease; others wait for it. None of them answers reviews.

    \b
    Example:
      cks-admission manage --config cks.yaml
    """
    import uvloop  # noqa: PLC0415 - the help needs nothing of what follows

    from certs.errors import CertificateError  # noqa: PLC0415 - as above
    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - as above
    from webhook.http.ports import PortError  # noqa: PLC0415 - as above
    from webhook.manage import manage  # noqa: PLC0415 - as above

    settings = options.settings(config, changes)
    sink = logs.configure(settings.log.level, settings.log.format)
    try:
        uvloop.run(manage(lambda: roles.of_manager(options.current(config, changes)), config, sink))
    except SettingsError as error:
        raise InputError(str(error)) from None
    except (CertificateError, ClusterError, PortError) as error:
        raise ToolError(str(error)) from None
