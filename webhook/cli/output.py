"""What verbs print, lines for people and values for machines as JSON or YAML; and how they end.

All that is printed passes through here and is printable, whatever an object, a policy or the name of a file holds. CI
systems take some lines of a log as commands, and none of these may come from outside: see
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands and
https://learn.microsoft.com/azure/devops/pipelines/scripts/logging-commands.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

import click
import yaml

from policies.engine.interruption import PostponedError
from policies.engine.request import AdmissionRequest
from policies.engine.violation import BLANKS, printable, prose
from webhook.files.yamlfile import resolve_as_kubernetes
from webhook.limits import COMPILING, COSTLY, limited

_COMMAND = re.compile(r"(?:^[^\S\n]*+:(?=:)|##(?=\[|vso\[))", re.MULTILINE)
# Stands for the escape character in styles. Nobody outside can write it, as it differs from run to run.
_STYLE = token_hex(8)


def harmless(text: str) -> str:
    """The text, printable but for its blanks, and without what a CI system takes as a command."""
    return _COMMAND.sub(lambda match: f"{match[0][:-1]}\\u{ord(match[0][-1]):04x}", printable(text, BLANKS))


def style(text: str, fg: str | None = None, *, bold: bool | None = None) -> str:
    """The text in a colour or in bold, for `say`."""
    return click.style(harmless(text), fg, bold=bold).replace("\x1b", _STYLE)


def coloured(diff: Iterable[str]) -> Iterator[str]:
    """The lines of a diff, what is added in green, what is removed in red."""
    colours = {"+": "green", "-": "red"}
    return (style(line, fg=colours.get(line[0])) for line in diff)


def say(*lines: str, err: bool = False) -> None:
    """Print lines for people. What comes from outside begins none: further lines of one are indented below it."""
    for line in lines:
        click.echo(harmless(prose(line)).replace(_STYLE, "\x1b"), err=err)


def complain(error: click.ClickException) -> None:
    """Print an error for people."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    words = harmless(prose(error.format_message()))
    shown = click.UsageError(words, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(words)
    shown.show()


def write_text(text: str) -> None:
    """Print a text that programs read. It is JSON, or what is not printable in it has no meaning."""
    click.echo(harmless(text), nl=False)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, which people can read, and no anchors; what `harmless` changes is escaped."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as in PyYAML
        """Whether a value is repeated where it stands once more: always."""
        return True

    def write_double_quoted(self, text: str, split: bool = True) -> None:  # noqa: FBT001, FBT002 - as in PyYAML
        """Write a text in ASCII."""
        self.allow_unicode = False
        super().write_double_quoted(text, split)
        self.allow_unicode = True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if harmless(value) != value else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
resolve_as_kubernetes(_Dumper)


def to_yaml(value: Any) -> str:
    """A value as YAML, keys in their order, each text on lines of its own."""
    return harmless(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=sys.maxsize))


def to_json(value: Any, indent: int | None = 2) -> str:
    """A value as JSON."""
    return harmless(json.dumps(value, indent=indent, ensure_ascii=False))


def write(value: Any, form: str) -> None:
    """Print a value as `json` or `yaml`."""
    write_text(f"{to_json(value)}\n" if form == "json" else to_yaml(value))


def show(form: str, lines: Iterable[str], data: Any) -> None:
    """Print lines for people, or, if the form is not `text`, the data for machines."""
    if form == "text":
        say(*lines)
    else:
        write(data, form)


def called(request: AdmissionRequest) -> str:
    """What the object of a request is called: kind, Namespace and name."""
    named = "/".join(part for part in (request.scope_namespace, request.display_name) if part)
    return f"{request.kind.kind} {named}"


def headline(where: str, request: AdmissionRequest, *, allowed: bool) -> str:
    """The line about an object: where it stands, what it is, and whether it would be let in."""
    verdict = style("admitted", fg="green") if allowed else style("refused", fg="red", bold=True)
    return f"{where}: {called(request)}: {verdict}"


def counted(number: int, noun: str) -> str:
    """`1 Node`, `2,000 Nodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of columns, those with the indexes in `right` to the right; a column without anything is left out."""
    lines_of = [list(row) for row in rows]
    shown = [index for index in range(len(head)) if any(row[index] for row in lines_of)]
    widths = {index: max(len(row[index]) for row in (head, *lines_of)) for index in shown}
    to_right = frozenset(right)
    lines = []
    for row in (head, *lines_of):
        cells = [row[i].rjust(widths[i]) if i in to_right else row[i].ljust(widths[i]) for i in shown]
        lines.append("  ".join(cells).rstrip())
    return [style(lines[0], bold=True), *lines[1:]]


OK = 0  # admitted, or nothing found
REFUSED = 1  # refused, or something found
USAGE = 2  # wrong usage, or input that cannot be read
FAILURE = 3  # the tool or the cluster failed


class InputError(click.ClickException):
    """Input that cannot be read or used."""

    exit_code = USAGE


def unreadable(error: OSError, name: str = "") -> InputError:
    """The error for a file that cannot be read. name: as the user wrote it, where the error may have it otherwise."""
    return InputError(f"{name or error.filename}: cannot be read: {error.strerror}")


@contextmanager
def reading(*errors: type[Exception]) -> Iterator[None]:
    """Raises these errors, and those of files that cannot be read, as InputErrors."""
    try:
        yield
    except errors as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise unreadable(error) from None


@contextmanager
def bounded(name: str, work: str = "compile") -> Iterator[None]:
    """A block that may take the processor time and memory in which a source is compiled.

    name: of the source or object that it is about. work: what it does with it. Raises InputError.
    """
    try:
        with limited(COMPILING):
            yield
    except PostponedError as error:
        where = f", by policy {error.policy!r}" if error.policy else ""
        where += f", at {error.place}" if error.place else ""
        raise InputError(f"{name}: took over {COMPILING.seconds} s to {work}{where}\n{COSTLY}") from None
    except MemoryError:
        raise InputError(f"{name}: took over {COMPILING.memory >> 20} MiB of memory to {work}\n{COSTLY}") from None


_EXTRAS = {"nicegui": "playground", "starlette": "playground"}


@contextmanager
def packages() -> Iterator[None]:
    """Raises an InputError where a package is missing that comes with an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "certs", "cks_admission", "policies", "webhook"):
            raise
        extra = _EXTRAS.get(name, "server")
        remedy = f"It comes with the extra `{extra}`: pip install 'cks-admission[{extra}]'"
        raise InputError(f"the package {name} is missing. {remedy}") from None


class ToolError(click.ClickException):
    """The tool or the cluster failed."""

    exit_code = FAILURE
