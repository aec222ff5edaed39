"""Results on stdout: for machines as JSON or YAML, for people tables, and the line about an object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
import yaml

from policies.engine.request import AdmissionRequest
from webhook.files.yamlfile import resolve_as_kubernetes


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, which people can read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
resolve_as_kubernetes(_Dumper)


def to_yaml(value: Any) -> str:
    """A value as YAML, keys in their order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def write(value: Any, form: str) -> None:
    """Print a value as `json` or `yaml`."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False) if form == "json" else to_yaml(value).rstrip("\n"))


def headline(where: str, request: AdmissionRequest, *, allowed: bool) -> str:
    """The line about an object: where it stands, what it is, and whether it would be let in."""
    name = "/".join(part for part in (request.scope_namespace, request.display_name) if part)
    verdict = click.style("admitted", fg="green") if allowed else click.style("refused", fg="red", bold=True)
    return f"{where}: {request.kind.kind} {name}: {verdict}"


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
    return [click.style(lines[0], bold=True), *lines[1:]]
