"""`cks-admission place`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from webhook import logs
from webhook.cli import options
from webhook.cli.exits import InputError, ToolError
from webhook.configuration import roles
from webhook.configuration.settings import SettingsError


@click.command("place")
@options.apart
def command(config: Path | None, **changes: Any) -> None:
    """Choose domains for gangs and open the gates of their Pods, until SIGTERM.

    It takes the same configuration as serve, in which place.apart is true. One process works, the one that holds the
    Lease; others know the same and wait for it. None of them answers reviews.

    \b
    Example:
      cks-admission place --config cks.yaml
    """
    import uvloop  # noqa: PLC0415 - the help needs nothing of what follows

    from webhook.cluster.api.errors import ClusterError  # noqa: PLC0415 - as above
    from webhook.http.ports import PortError  # noqa: PLC0415 - as above
    from webhook.place import place  # noqa: PLC0415 - as above

    settings = options.settings(config, changes)
    sink = logs.configure(settings.log.level, settings.log.format)
    try:
        uvloop.run(place(lambda: roles.of_placer(options.current(config, changes)), config, sink))
    except SettingsError as error:
        raise InputError(str(error)) from None
    except (ClusterError, PortError) as error:
        raise ToolError(str(error)) from None
