"""`cks-admission fmt`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path

import click

from policies.cel.syntax.formatting import KeptError, formatted
from policies.cel.syntax.source import CompileError, Source
from webhook.cli import exits
from webhook.cli.exits import InputError, reading
from webhook.files.yamlfile import FileError
from webhook.files.yamltext import Formatting, format_file
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFilesError


@click.command("fmt")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option("-e", "--expression", metavar="EXPRESSION", help="Format this expression and print it.")
@click.option("--check", is_flag=True, help="Write nothing; name the files that would change, and exit with 1.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
def command(paths: tuple[str, ...], expression: str | None, *, check: bool, diff: bool) -> None:
    """Format the CEL expressions of policies, in their files.

    Lines have at most 120 columns and are broken at operators, arguments and items. Only the expressions of
    ValidatingAdmissionPolicies and MutatingAdmissionPolicies change; comments and everything else in the YAML stay.
    An expression with comments is left as it is. With -e or -, one expression is formatted and printed.

    \b
    Examples:
      cks-admission fmt policies/
      cks-admission fmt --check --diff policies/
      cks-admission fmt -e 'object.spec.replicas<=5'
    """
    if expression is not None or paths in ((), ("-",)):
        if expression is not None and paths:
            raise InputError("give either -e EXPRESSION or files")
        click.echo(_one(sys.stdin.read() if expression is None else expression))
        return
    changed = 0
    for name, text, result in _results(paths):
        if result.text == text:
            continue
        changed += 1
        if diff:
            lines = text.splitlines(keepends=True), result.text.splitlines(keepends=True)
            click.echo("".join(unified_diff(*lines, name, name)), nl=False)
        elif check:
            click.echo(name)
        else:
            _write(name, result.text)
            click.echo(name)
    sys.exit(exits.REFUSED if check and changed else exits.OK)


def _results(paths: Iterable[str]) -> Iterator[tuple[str, str, Formatting]]:
    """Every file with its text and what becomes of it. Raises InputError, before anything is written."""
    with reading(PolicyFilesError, FileError):
        results = [(name, text, format_file(name, text)) for name, text in policyfiles.texts(paths)]
    for line in (line for *_, result in results for line in result.kept):
        click.echo(line, err=True)
    if errors := [error for *_, result in results for error in result.errors]:
        raise InputError("\n".join(errors))
    yield from results


def _one(text: str) -> str:
    try:
        return formatted(Source(text.strip(), "expression"))
    except CompileError as error:
        raise InputError(f"the expression does not parse\n{error}") from None
    except KeptError as reason:
        click.echo(f"the expression is left as it is: {reason}", err=True)
        return text.strip("\n")


def _write(name: str, text: str) -> None:
    with reading():
        Path(name).write_bytes(text.encode())
