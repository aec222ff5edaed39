"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from webhook.cli.exits import InputError
from webhook.settings import Settings, SettingsError, override, read

config = click.option(
    "--config",
    "config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file; without one every setting has its default.",
)
output = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Form of the output.",
)


def setting(name: str, key: str, **attributes: Any) -> Callable[[Any], Any]:
    """An option that sets one key of the configuration, such as listen.port."""
    return click.option(name, key.replace(".", "__"), default=None, **attributes)


def settings(config: Path | None, options: dict[str, Any]) -> Settings:
    """The configuration file's settings, changed by the options made with `setting` that were given."""
    try:
        base = read(config) if config else Settings()
        return override(base, ((key.replace("__", "."), value) for key, value in options.items() if value is not None))
    except SettingsError as error:
        raise InputError(str(error)) from None
