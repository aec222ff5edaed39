"""`cks-admission review|replay`: AdmissionReviews are answered, and recorded ones once more."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

import click
from msgspec.structs import asdict

from policies.engine import engine
from policies.engine.comparison import Change
from policies.engine.facts import StaticFacts
from webhook.cli import exits, options, output
from webhook.cli.exits import InputError, reading, unreadable
from webhook.configuration.rules import BUILT_IN_RULES
from webhook.configuration.settings import SettingsError
from webhook.decisions.record import Effect, Recorded, RecordError, Replay, read
from webhook.http.decision import Served
from webhook.http.review import ReviewError, encode


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
def review(files: tuple[str, ...], path: str, config: Path | None, **changes: tuple[str, ...]) -> None:
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


# Longer lines are no records: decisions.maxRecordBytes is 1 MiB at most.
_LONGEST = 4 * 1024 * 1024
# How many lines that cannot be read are told, and how many policies that are compared with nothing.
_TOLD = 10
_OTHERS = 1000
_WORDS: dict[str, str] = {
    "refuse": "would be refused", "warn": "would be warned of", "admit": "would be admitted",
    "patch": "would be changed otherwise",
}  # fmt: skip


class _Line(NamedTuple):
    """A line of a log. place: the file and the number of the line."""

    place: str
    text: bytes


class _Summary:
    """What is told at the end. Its size depends on the policies alone."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.policies: dict[str, Counter[str]] = {}
        self.others: Counter[str] = Counter()
        self.releases: Counter[str] = Counter()

    def count(self, effect: Effect, change: Change) -> None:
        """Count one verdict."""
        self.policies.setdefault(change.policy, Counter())[effect] += 1

    @property
    def changes(self) -> int:
        """How many verdicts change."""
        return sum(times for counted in self.policies.values() for effect, times in counted.items() if effect != "same")

    def to_json(self) -> dict[str, Any]:
        """The whole summary."""
        kinds = ("replayed", "withoutContent", "masked", "shadow", "other", "unreadable")
        return {
            "changes": self.changes,
            **{kind: self.records[kind] for kind in kinds},
            "policies": {name: dict(counted) for name, counted in sorted(self.policies.items())},
            "notCompared": dict(sorted(self.others.items())),
        }


@click.command("replay")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...|-")
@options.policies
@options.kubernetes
@options.config
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format; json is a line for each change, and one with the summary.",
)
def replay(logs: tuple[str, ...], config: Path | None, form: str, **changes: tuple[str, ...]) -> None:
    """Show whose verdict other policies would change: they judge the requests in logs of decisions.

    LOG is a file that decisions.log names, also a rotated one or one that gzip made smaller. Only records with
    decisions.content: objects can be replayed. Exits with 1 if a verdict changes. Built-in rules are not compared.
    Without --config the packs are off.

    \b
    Examples:
      cks-admission replay decisions.jsonl --policies changed/
      cks-admission replay decisions.jsonl* -o json --policies changed/
      kubectl logs -n cks-admission -l app.kubernetes.io/component=webhook --tail=-1 |
        cks-admission replay - --policies changed/
    """
    settings = options.settings(config, changes, packs=config is not None)
    today = datetime.now(UTC).date()
    with reading(SettingsError):
        files, ruleset = options.ruleset(settings, today, drafts=True)
    if files is None:
        raise InputError("there is nothing to compare with: give the new policies with --policies")
    given = (policy.name for policy in files.loaded.policies)
    names = dict.fromkeys((*(rule.name for rule in ruleset.rules if rule.name not in BUILT_IN_RULES), *given))
    replay, summary = Replay(names, ruleset, files.facts(today)), _Summary()
    for line in _lines(logs):
        _look(line, replay, names, summary, form)
    _tell(summary, files.release.name, form)
    if not summary.records["replayed"]:
        raise InputError(f"no record could be replayed; {_WHY}")
    sys.exit(exits.REFUSED if summary.changes else exits.OK)


_WHY = "records need their objects: set decisions.content to objects, and admit in decisions.samples"


def _look(line: _Line, replay: Replay, names: Collection[str], summary: _Summary, form: str) -> None:
    """Judge what is in a line, and show what changes."""
    try:
        record = read(line.text)
    except RecordError as error:
        summary.records["unreadable"] += 1
        if summary.records["unreadable"] <= _TOLD:
            click.echo(f"{line.place}: no record: {error}", err=True)
        return
    if not isinstance(record, Recorded):
        summary.records[record] += 1
    elif not record.is_whole:
        summary.records["withoutContent"] += 1
    else:
        summary.records["replayed"] += 1
        summary.records["masked"] += record.masked > 0
        summary.releases[record.kubernetes] += 1
        for policy in record.said.keys() - {*names, *BUILT_IN_RULES}:
            if policy in summary.others or len(summary.others) < _OTHERS:
                summary.others[policy] += 1
        for effect, change in replay.judged(record):
            summary.count(effect, change)
            if effect != "same":
                (_show_json if form == "json" else _show)(line, record, effect, change)


def _show(line: _Line, record: Recorded, effect: Effect, change: Change) -> None:
    request = record.request
    name = "/".join(part for part in (request.scope_namespace, request.display_name) if part)
    who = f"{request.operation} {request.kind.kind} {name} by {request.user_info.username or 'nobody'}"
    masked = " (some of its values are masked)" if record.masked else ""
    click.echo(f"{line.place}: {who}: {click.style(_WORDS[effect], bold=True)} by {change.policy}{masked}")
    for when, judgement in (("then", change.then), ("now", change.now)):
        told = "\n          ".join([judgement.verdict, *judgement.message.splitlines()])
        click.echo(f"    {when + ':':5} {told}")


def _show_json(line: _Line, record: Recorded, effect: Effect, change: Change) -> None:
    request = record.request
    _print({
        "place": line.place,
        "time": record.time.isoformat(),
        "uid": request.uid,
        "kind": request.kind.kind,
        "namespace": request.scope_namespace,
        "name": request.display_name,
        "operation": request.operation,
        "user": request.user_info.username,
        "policy": change.policy,
        "outcome": effect,
        "then": asdict(change.then),
        "now": asdict(change.now),
        "masked": record.masked,
    })  # fmt: skip


def _print(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def _tell(summary: _Summary, release: str, form: str) -> None:
    """Print the summary, and on stderr what could not be compared."""
    if form == "json":
        _print({"summary": summary.to_json()})
    else:
        head = ("POLICY", "SAME", "REFUSED", "WARNED", "ADMITTED", "CHANGED")
        effects = ("same", "refuse", "warn", "admit", "patch")
        rows = [[name, *(str(counted[e]) for e in effects)] for name, counted in sorted(summary.policies.items())]
        for row in output.table(head, rows, right=range(1, len(head))) if rows else ():
            click.echo(row)
        changes = "1 verdict changes" if summary.changes == 1 else f"{summary.changes} verdicts change"
        click.echo(f"{output.counted(summary.records['replayed'], 'record')} replayed, {changes}")
    for note in _notes(summary, release):
        click.echo(note, err=True)


def _notes(summary: _Summary, release: str) -> Iterator[str]:
    records = summary.records
    if records["withoutContent"]:
        yield f"{records['withoutContent']} records without content were not replayed; {_WHY}"
    if records["shadow"]:
        yield f"{records['shadow']} records of policies in the shadow were left out"
    if records["unreadable"] > _TOLD:
        yield f"{records['unreadable']} lines were no records"
    if records["masked"] and summary.changes:
        yield f"{records['masked']} records have masked values; a policy that reads them may judge otherwise"
    if summary.others:
        yield f"policies in the log that were not given, and not compared: {', '.join(sorted(summary.others))}"
    for other, times in sorted(summary.releases.items()):
        if other != release:
            yield f"{times} records were judged as by Kubernetes {other}, and replayed as by {release}: --kubernetes"


def _lines(logs: Sequence[str]) -> Iterator[_Line]:
    """The lines of all logs, one at a time. Raises InputError."""
    for log in logs:
        name = "standard input" if log == "-" else log
        try:
            with _opened(log) as stream:
                number = 0
                while line := stream.readline(_LONGEST):
                    number += 1
                    whole = line
                    while whole and not whole.endswith(b"\n"):  # the rest of a line that is too long
                        whole = stream.readline(_LONGEST)
                    if line.strip():
                        yield _Line(f"{name}:{number}", line)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{name}: cannot be read: {error}") from None
        except OSError as error:
            raise unreadable(error, name) from None


@contextmanager
def _opened(log: str) -> Iterator[IO[bytes]]:
    """A log, as it is read. Raises OSError."""
    if log == "-":
        yield sys.stdin.buffer
    elif log.endswith(".gz"):
        with gzip.open(log) as unpacked:
            yield cast("IO[bytes]", unpacked)
    else:
        with Path(log).open("rb") as stream:
            yield stream
