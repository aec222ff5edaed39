"""`cks-admission review`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import click

from policies.engine import engine
from policies.engine.facts import StaticFacts
from webhook.cli import exits, options
from webhook.cli.exits import InputError, reading, unreadable
from webhook.configuration.settings import SettingsError
from webhook.http.review import ReviewError, encode
from webhook.http.state import Served


@click.command("review")
@click.argument("files", nargs=-1, required=True, metavar="FILE...|-")
@click.option(
    "--path",
    default="validate",
    show_default=True,
    help="Path to call: mutate, validate, or one of a group, such as mutate/pods.",
)
@options.policies
@options.kubernetes
@options.config
def command(files: tuple[str, ...], path: str, config: Path | None, **changes: tuple[str, ...]) -> None:
    """Answer AdmissionReviews: one JSON review per file, or one per line on standard input (-).

    Prints one answer per line, byte for byte as the server would answer without a cluster. Exits with 1 if an answer
    refuses the request. Without --config the packs are off.

    \b
    Examples:
      cks-admission review review.json
      cks-admission review --path mutate/pods - < reviews.jsonl
      cks-admission review --policies policies/ review.json
    """
    settings = options.settings(config, changes, packs=config is not None)
    today = datetime.now(UTC).date()
    with reading(SettingsError):
        written, ruleset = options.ruleset(settings, today, drafts=True, clustered=settings.cluster.is_given)
    facts = StaticFacts(today) if written is None else written.facts(today)
    served = Served(ruleset, facts)
    route = served.routes.get("/" + path.strip("/"))
    if route is None:
        known = ", ".join(name.lstrip("/") for name in sorted(served.routes))
        raise InputError(f"--path {path}: there is no such path; known are {known}")
    run = engine.mutate if route.phase == "mutate" else engine.validate
    code = exits.OK
    for name, body in _reviews(files):
        try:
            request = route.decode(body)
        except ReviewError as error:
            click.echo(f"{name}: HTTP {error.status}: {error}", err=True)
            code = exits.USAGE
            continue
        answer = run(request, served.ruleset, facts, route.group)
        code = code or (exits.OK if answer.allowed else exits.REFUSED)
        sys.stdout.buffer.write(encode(request.uid, answer) + b"\n")
    sys.exit(code)


def _reviews(files: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        if file == "-":
            stream: BinaryIO = sys.stdin.buffer
            yield from ((f"line {number}", line.rstrip(b"\n")) for number, line in enumerate(stream, 1) if line.strip())
            continue
        try:
            yield file, Path(file).read_bytes()
        except OSError as error:
            raise unreadable(error, file) from None
