"""`cks-admission review|replay`: AdmissionReviews are answered, and recorded ones once more."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, BinaryIO, cast

import click
from msgspec.structs import asdict

from policies.engine import engine
from policies.engine.comparison import Change
from policies.engine.facts import StaticFacts
from webhook.cli import options
from webhook.cli.output import (
    OK,
    REFUSED,
    USAGE,
    InputError,
    bounded,
    called,
    counted,
    reading,
    say,
    style,
    table,
    to_json,
    unreadable,
)
from webhook.configuration.rules import BUILT_IN_RULES
from webhook.configuration.settings import SettingsError
from webhook.decisions.record import Effect, Recorded, RecordError, Replay, read
from webhook.files.yamlfile import OBJECTS, content
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
    code = OK
    for name, body in _reviews(files):
        try:
            request = route.decode(body)
        except ReviewError as error:
            say(f"{name}: HTTP {error.status}: {error}", err=True)
            code = USAGE
            continue
        with bounded(name, "judge"):
            answer = run(request, served.ruleset, facts, route.group)
        code = code or (OK if answer.allowed else REFUSED)
        sys.stdout.buffer.write(encode(request.uid, answer) + b"\n")
    sys.exit(code)


def _reviews(files: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        if file == "-":
            stream: BinaryIO = sys.stdin.buffer
            yield from ((f"line {number}", line.rstrip(b"\n")) for number, line in enumerate(stream, 1) if line.strip())
            continue
        try:
            yield file, content(file, most=OBJECTS, pipes=True)
        except OSError as error:
            raise unreadable(error, file) from None


# Longer lines are no records: decisions.maxRecordBytes is 1 MiB at most.
_LONGEST = 4 * 1024 * 1024
# How many lines that cannot be read are named, and how many policies that are compared with nothing.
_NAMED = 10
_OTHERS = 1000
_EFFECTS: dict[str, str] = {
    "refuse": "would be refused", "warn": "would be warned of", "admit": "would be admitted",
    "patch": "would be changed otherwise",
}  # fmt: skip
_WHY = "records need their objects: set decisions.content to objects, and admit in decisions.samples"


class _Summary:
    """What is printed at the end. Its size depends on the policies alone."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.policies: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.others: Counter[str] = Counter()
        self.releases: Counter[str] = Counter()


@click.command("replay")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...|-")
@options.policies
@options.kubernetes
@options.config
@options.output_of("text", "json", help="Output format; json is a line for each change, and one with the summary.")
def replay(logs: tuple[str, ...], config: Path | None, output: str, **changes: tuple[str, ...]) -> None:
    """Show whose verdict other policies would change: they judge the requests in decision logs.

    LOG is a file of decisions.log, also a rotated or gzipped one. Only records with decisions.content: objects can be
    replayed. Built-in rules are not compared. Without --config the packs are off. Exit code 1 if a verdict changes.

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
    for place, line in _lines(logs):
        for effect, record, change in _changes(place, line, replay, names, summary):
            say(*(_text if output == "text" else _json)(place, effect, record, change))

    records, policies, others = summary.records, sorted(summary.policies.items()), sorted(summary.others.items())
    changed = sum(counts.total() - counts["same"] for _, counts in policies)
    if output == "json":
        kinds = ("replayed", "withoutContent", "masked", "shadow", "other", "unreadable")
        counts_of = {name: dict(counts) for name, counts in policies}
        whole = {kind: records[kind] for kind in kinds} | {"policies": counts_of, "notCompared": dict(others)}
        say(to_json({"summary": {"changes": changed, **whole}}, None))
    else:
        head = ("POLICY", "SAME", "REFUSED", "WARNED", "ADMITTED", "CHANGED")
        effects = ("same", "refuse", "warn", "admit", "patch")
        rows = [[name, *(str(counts[effect]) for effect in effects)] for name, counts in policies]
        say(*(table(head, rows, right=range(1, len(head))) if rows else ()))
        verdicts = "1 verdict changes" if changed == 1 else f"{changed} verdicts change"
        say(f"{counted(records['replayed'], 'record')} replayed, {verdicts}")

    # What could not be compared.
    release, absent = files.release.name, ", ".join(name for name, _ in others)
    notes = [
        ("withoutContent", f"records without content were not replayed; {_WHY}"),
        ("shadow", "records of shadow policies were left out"),
        *([("unreadable", "lines were no records")] if records["unreadable"] > _NAMED else []),
        *([("masked", "records have masked values; a policy that reads them may judge otherwise")] if changed else []),
    ]
    say(*(f"{records[kind]} {text}" for kind, text in notes if records[kind]), err=True)
    say(*([f"policies in the log that were not given, and not compared: {absent}"] if others else ()), err=True)
    for other, times in sorted(summary.releases.items()):
        if other != release:
            judged = f"{times} records were judged as by Kubernetes {other}"
            say(f"{judged}, and replayed as by {release}: --kubernetes", err=True)
    if not records["replayed"]:
        raise InputError(f"no record could be replayed; {_WHY}")
    sys.exit(REFUSED if changed else OK)


def _changes(
    place: str, line: bytes, replay: Replay, names: Collection[str], summary: _Summary
) -> Iterator[tuple[Effect, Recorded, Change]]:
    """The verdicts that change for what is recorded in a line; all of them are counted."""
    try:
        record = read(line)
    except RecordError as error:
        summary.records["unreadable"] += 1
        if summary.records["unreadable"] <= _NAMED:
            say(f"{place}: no record: {error}", err=True)
        return
    if not isinstance(record, Recorded):
        summary.records[record] += 1
        return
    summary.records["replayed" if record.is_whole else "withoutContent"] += 1
    if not record.is_whole:
        return
    summary.records["masked"] += record.masked > 0
    summary.releases[record.kubernetes] += 1
    for policy in record.judgements.keys() - {*names, *BUILT_IN_RULES}:
        if policy in summary.others or len(summary.others) < _OTHERS:
            summary.others[policy] += 1
    with bounded(place, "judge"):
        effects = replay.judged(record)
    for effect, change in effects:
        summary.policies[change.policy][effect] += 1
        if effect != "same":
            yield effect, record, change


def _text(place: str, effect: Effect, record: Recorded, change: Change) -> Iterator[str]:
    request = record.request
    who = f"{request.operation} {called(request)} by {request.user_info.username or 'nobody'}"
    masked = " (some of its values are masked)" if record.masked else ""
    yield f"{place}: {who}: {style(_EFFECTS[effect], bold=True)} by {change.policy}{masked}"
    for when, judgement in (("then", change.then), ("now", change.now)):
        lines = "\n          ".join([judgement.verdict, *judgement.message.splitlines()])
        yield f"    {when + ':':5} {lines}"


def _json(place: str, effect: Effect, record: Recorded, change: Change) -> Iterator[str]:
    request = record.request
    data = {
        "place": place,
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
    }
    yield to_json(data, None)


def _lines(logs: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The lines of all logs, one at a time, each with its place. Raises InputError."""
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
                        yield f"{name}:{number}", line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{name}: cannot be read: {error}") from None
        except OSError as error:
            raise unreadable(error, name) from None


def _opened(log: str) -> AbstractContextManager[IO[bytes]]:
    """A log, as it is read. Raises OSError."""
    if log == "-":
        return nullcontext(sys.stdin.buffer)
    return cast("IO[bytes]", gzip.open(log)) if log.endswith(".gz") else Path(log).open("rb")
