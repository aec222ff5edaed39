"""`cks-admission export webhook-configuration|configuration`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import yaml

from webhook.cli import options
from webhook.cli.exits import InputError
from webhook.cli.output import to_yaml
from webhook.reference import configuration as reference
from webhook.registrar import registered
from webhook.settings import SettingsError


@click.group("export")
def command() -> None:
    """Print webhook configurations or the whole configuration."""


@command.command("webhook-configuration")
@options.config
@options.setting("--webhook-url", "registration.url", help="Base URL of the service, for one outside the cluster.")
@options.setting(
    "--ca-file", "registration.caFile", help="CA bundle, PEM; else that of the service's own certificates."
)
@options.policies
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Form of the output."
)
def webhook_configuration(config: Path | None, output: str, **changes: Any) -> None:
    """Print what `serve --register` would apply, for GitOps.

    \b
    Example:
      cks-admission export webhook-configuration --config cks.yaml | kubectl apply --server-side -f -
    """
    settings = options.settings(config, changes)
    own = Path(settings.tls.directory) / "ca-bundle.crt"
    try:
        ruleset = options.ruleset(settings, datetime.now(UTC).date())[1]
        found = registered(settings, own.read_bytes() if own.exists() else b"", ruleset)
    except (SettingsError, OSError) as error:
        raise InputError(str(error)) from None
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}, indent=2))
    else:
        click.echo("---\n".join(to_yaml(document) for document in found), nl=False)


@command.command("configuration")
def configuration() -> None:
    """Print every setting with its meaning and its default, as a configuration file.

    \b
    Example:
      cks-admission export configuration > cks.yaml
    """
    text = reference()
    yaml.safe_load(text)
    click.echo(text, nl=False)
