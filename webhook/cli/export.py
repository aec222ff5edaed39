"""`cks-admission export`: webhook configurations, the configuration, schemas, and what kube-apiserver takes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from certs.errors import PemError, StoreError
from certs.material import Bundle
from policies.engine.request import JsonObject
from policies.kubernetes.release import NEWEST
from webhook.cli import options
from webhook.cli.output import InputError, reading, say, to_yaml, write, write_text
from webhook.configuration.settings import Settings, SettingsError
from webhook.configuration.settingsfile import reference
from webhook.files.yamlfile import FileError
from webhook.registration.configurations import registered, without_guard

_TWICE = "registration.apply is true: set it to false, or the API server calls the service twice"


class _Export(click.Group):
    """Takes `--native` for the command of that name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments, in the one spelling."""
        return super().parse_args(ctx, ["native", *args[1:]] if args[:1] == ["--native"] else args)


@click.group("export", cls=_Export)
def command() -> None:
    """Print webhook configurations, all settings, schemas for editors, or policies for kube-apiserver."""


@command.command("webhook-configuration")
@options.config
@options.setting("--webhook-url", "registration.url", help="Base URL of the service if it runs outside the cluster.")
@options.setting(
    "--ca-file", "registration.caFile", help="CA bundle (PEM). Default: the bundle of the service's own certificates."
)
@options.policies
@options.kubernetes
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Output format."
)
def webhook_configuration(config: Path | None, output: str, **changes: Any) -> None:
    """Print what `serve --register` would apply, for GitOps.

    \b
    Example:
      cks-admission export webhook-configuration --config cks.yaml | kubectl apply --server-side -f -
    """
    configurations = _configurations(options.settings(config, changes), static=False)
    if output == "json":
        write({"apiVersion": "v1", "kind": "List", "items": configurations}, output)
    else:
        write_text("---\n".join(map(to_yaml, configurations)))


def _configurations(settings: Settings, *, static: bool) -> list[JsonObject]:
    """The webhook configurations. static: for files of kube-apiserver, which have the guard. Raises InputError."""
    given, own = settings.registration.ca_file, Path(settings.tls.directory) / "ca-bundle.crt"
    try:
        ruleset = options.ruleset(settings, datetime.now(UTC).date())[1]
        bundle = Path(given).read_bytes() if given else own.read_bytes() if own.exists() else b""
        if static and bundle:
            Bundle.from_pem(bundle)
        elif settings.registration.inject_ca_from and not static:
            bundle = b""  # whoever applies this again and again would take back what cert-manager wrote
        made = {str(one["kind"]): one for one in registered(settings, bundle, ruleset)}
    except (SettingsError, PemError, OSError) as error:
        raise InputError(str(error)) from None
    guarded = settings.labels.action == "deny" if static else settings.labels.enforced_by == "static"
    return [*(without_guard(made) if guarded else made).values()]


@command.command("configuration")
def configuration() -> None:
    """Print all settings with descriptions and defaults, as a configuration file.

    \b
    Example:
      cks-admission export configuration > cks.yaml
    """
    write_text(reference())


@command.command("schema")
@click.argument("name", type=click.Choice(["configuration", "suite", "exception"]))
def schema(name: str) -> None:
    """Print the JSON Schema of a document, by which editors complete and check it while you write.

    The first line of a YAML file names its schema, as a path or an address:

    \b
      # yaml-language-server: $schema=suite.schema.json

    \b
    Examples:
      cks-admission export schema configuration > cks.schema.json
      cks-admission export schema suite > suite.schema.json
    """
    from webhook import schemas  # noqa: PLC0415 - nothing else here needs them

    write(schemas.schema(name), "json")


@command.command("native")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(exists=True))
@click.option(
    "--config",
    "config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file, whose packs are printed, too.",
)
@options.kubernetes
def native(paths: tuple[str, ...], config: Path | None, **changes: str | None) -> None:
    """Print policies as plain Kubernetes YAML that kube-apiserver enforces itself.

    Parameters come first, then policies, then bindings, as written. Notes on what is left out, and on what
    kube-apiserver does differently, go to stderr. With --config the packs are printed, with their modes and parameters.

    \b
    Examples:
      cks-admission export native policies/packs/sunk | kubectl apply -f -
      cks-admission export native --config cks.yaml | kubectl apply -f -
    """
    from webhook.cli.native import exported  # noqa: PLC0415 - reading policies needs the CEL engine, nothing else here does
    from webhook.sources import packs, policyfiles  # noqa: PLC0415 - as above

    if not paths and config is None:
        raise InputError("name files or directories with policies, or a configuration with --config")
    settings = options.settings(config, changes)
    with reading(FileError, SettingsError):
        shipped = packs.texts(settings) if config else ()
        release = settings.policies.release or NEWEST
        texts, notes = exported((*policyfiles.texts(paths), *shipped), release)
    if not texts:
        where = ", ".join(paths) or f"{config}: packs"
        raise InputError(f"{where}: no ValidatingAdmissionPolicy or MutatingAdmissionPolicy found")
    say(*notes, err=True)
    write_text("---\n".join(texts))


@command.command("static")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(exists=True))
@options.config
@options.kubernetes
@options.setting(
    "--webhooks", "registration.url", metavar="URL", help="Write webhook configurations, too, for this URL."
)
@options.setting("--ca-file", "registration.caFile", help="CA bundle (PEM) of that URL.")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory, where kube-apiserver has it.",
)
def static(paths: tuple[str, ...], config: Path | None, output: Path, **changes: str | None) -> None:
    """Write the guard and packs as files of kube-apiserver, out of the reach of every account of the cluster.

    A wrong file ends kube-apiserver at its start: try the files with another one first. From Kubernetes 1.37 on.
    Policies in PATH are written, too. What is left out, such as policies with parameters, is on stderr.

    \b
    Examples:
      cks-admission export static --config cks.yaml -o /etc/kubernetes/cks-admission
      kube-apiserver --admission-control-config-file=/etc/kubernetes/cks-admission/admission.yaml ...
    """
    from webhook.cli.native import in_files, write_files  # noqa: PLC0415 - reading policies needs the CEL engine
    from webhook.sources import packs, policyfiles  # noqa: PLC0415 - as above

    settings = options.settings(config, changes)
    with reading(FileError, SettingsError, StoreError):
        files = (*policyfiles.texts(paths), *packs.texts(settings))
        release = settings.policies.release or NEWEST
        made, notes = in_files(settings, files, release, datetime.now(UTC).date())
        if changes["registration__url"]:
            notes += [_TWICE] if settings.registration.apply else []
            made += _configurations(settings, static=True)
        write_files(output, made, release)
    say(*notes, err=True)
