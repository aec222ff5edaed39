"""`cks-admission certs show|issue|verify`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from cryptography.x509 import Certificate

from certs.errors import CertificateError, InvalidNameError
from certs.material import Bundle, load_certificates
from certs.plan import ensure
from certs.verify import describe, verify
from webhook.cli import options
from webhook.cli.output import OK, REFUSED, InputError, ToolError, say, show
from webhook.configuration.settings import Tls

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("certs")
def command() -> None:
    """Show, issue and verify certificates."""


@command.command("show")
@click.argument("files", nargs=-1, required=True, type=_file)
@options.output
def show_command(files: tuple[Path, ...], output: str) -> None:
    """Describe the certificates in PEM files.

    \b
    Example:
      cks-admission certs show .cks-admission/certs/tls.crt .cks-admission/certs/ca-bundle.crt
    """
    now = datetime.now(UTC)
    certificates = [
        {"file": str(file), **describe(certificate, now)} for file in files for certificate in _certificates(file)
    ]
    lines: list[str] = []
    for entry in certificates:
        lines += [""] if lines else []
        for key, value in entry.items():
            lines.append(f"{key.replace('_', ' ') + ':':<20} {', '.join(value) if isinstance(value, list) else value}")
    show(output, lines, certificates)


@command.command("issue")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Tls().directory,
    show_default=True,
    help="Directory to write to.",
)
@click.option(
    "--name", "names", multiple=True, help="DNS name or IP address; repeatable. [default: localhost, 127.0.0.1]"
)
def issue(directory: Path, names: tuple[str, ...]) -> None:
    """Create a CA and a certificate in a directory. Valid ones are kept; those that are due are renewed.

    \b
    Example:
      cks-admission certs issue --directory certs.d --name cks-admission.cks-admission.svc
    """
    try:
        ensured = ensure(directory, names or Tls().names, datetime.now(UTC))
    except InvalidNameError as error:
        raise InputError(str(error)) from None
    except CertificateError as error:
        raise ToolError(str(error)) from None
    for reason in ensured.reasons or (f"nothing was due: valid until {ensured.leaf.not_after:%Y-%m-%d %H:%M:%S} UTC",):
        say(reason)


@command.command("verify")
@click.argument("cert", type=_file)
@click.option(
    "--ca", "ca", type=_file, required=True, help="CA bundle (PEM): the caBundle of the webhook configuration."
)
@click.option("--name", "names", multiple=True, required=True, help="Name that the API server connects to; repeatable.")
@options.output
def check(cert: Path, ca: Path, names: tuple[str, ...], output: str) -> None:
    """Check a certificate as the API server would: names, chain to the CA bundle, dates, key strength.

    \b
    Example:
      cks-admission certs verify tls.crt --ca ca-bundle.crt --name cks-admission.cks-admission.svc
    """
    chain = _certificates(cert)
    try:
        bundle = Bundle.from_pem(ca.read_bytes())
    except CertificateError as error:
        raise InputError(f"{ca}: {error}") from None
    findings = verify(chain, bundle, names, datetime.now(UTC))
    lines = (f"{'ok  ' if finding.ok else 'BAD '} {finding.text}" for finding in findings)
    show(output, lines, [{"ok": finding.ok, "text": finding.text} for finding in findings])
    sys.exit(OK if all(finding.ok for finding in findings) else REFUSED)


def _certificates(file: Path) -> list[Certificate]:
    try:
        return list(load_certificates(file.read_bytes()))
    except (CertificateError, OSError) as error:
        raise InputError(f"{file}: {error}") from None
