"""Prints results in the form that is asked for: what can be said at once is, the rest at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import click

from webhook.cli import exits
from webhook.cli.findings.finding import Result
from webhook.cli.findings.hosts import github, gitlab
from webhook.cli.findings.junit import junit
from webhook.cli.findings.sarif import sarif
from webhook.cli.output import to_yaml

LINES = "lines"
"""The form of JSON with an object on each line. The data of a result are several objects."""
DATA = ("json", "yaml", LINES)
"""The forms for which results need their data."""


class Report:
    """The output of one run. Only results with findings are kept, or all for JUnit, which counts what passed.

    quiet: whether text has only what has findings. strict: whether warnings fail.
    """

    def __init__(self, form: str, *, quiet: bool = False, strict: bool = False) -> None:
        self._form = form
        self._quiet = quiet
        self._strict = strict
        self._kept: list[Result] = []
        self._items = 0
        self.counts: Counter[str] = Counter()
        self.total = 0

    def add(self, result: Result) -> None:
        """Take a result, and print it if the form lets it be."""
        self.total += 1
        self.counts.update(result.counts)
        self.counts.update(finding.level for finding in result.findings)
        if self._form == "text":
            self._text(result)
        elif self._form in DATA:
            if result.data is not None:
                self._item(result.data)
        elif self._form == "github":
            for finding in result.findings:
                click.echo(github(finding))
        elif result.findings or self._form == "junit":
            self._kept.append(result._replace(lines=(), data=None))

    def _text(self, result: Result) -> None:
        if result.unreadable:
            click.echo(f"{click.style('Error:', fg='red', bold=True)} {result.data['error']}", err=True)
        elif result.lines and not (self._quiet and not result.findings):
            click.echo("\n".join(result.lines))

    def _item(self, data: Any) -> None:
        if self._form == LINES:
            for item in data if isinstance(data, list) else [data]:
                click.echo(json.dumps(item, ensure_ascii=False))
        elif self._form == "yaml":
            click.echo(to_yaml([data]), nl=False)
        else:
            shown = json.dumps(data, indent=2, ensure_ascii=False).replace("\n", "\n  ")
            click.echo(f"{',' if self._items else '['}\n  {shown}", nl=False)
        self._items += 1

    def end(self, summary: Iterable[str] = ()) -> int:
        """Print what is left, and in text the summary. The exit code of the run."""
        if self._form == "text":
            lines = () if self._quiet else tuple(summary)
            if lines:
                click.echo("\n".join(lines))
        elif self._form in DATA:
            ends = {"json": "\n]" if self._items else "[]", "yaml": "" if self._items else "[]"}
            empty = ends.get(self._form, "")
            click.echo(empty, nl=bool(empty))
        elif self._form != "github":
            click.echo(self._whole(), nl=False)
        return self.code

    def _whole(self) -> str:
        if self._form == "junit":
            return junit(self._kept, strict=self._strict)
        return sarif(self._kept) if self._form == "sarif" else gitlab(self._kept)

    @property
    def code(self) -> int:
        """The exit code so far: 2 if something could not be read, 1 for an error, or a warning where it fails."""
        if self.counts["not read"]:
            return exits.USAGE
        return exits.REFUSED if self.counts["error"] or (self._strict and self.counts["warning"]) else exits.OK
