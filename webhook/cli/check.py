"""`cks-admission check`: objects are judged, by several processes side by side where there are many."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import click

from policies.admissionpolicy.builtin.plugins import Limits
from policies.admissionpolicy.rules.coverage import Coverage
from policies.engine.facts import StaticFacts
from policies.engine.request import UserInfo, mapping
from policies.engine.violation import listed
from policies.kubernetes.release import NEWEST
from policies.schema.schemas import Schemas
from webhook.cli import judging, options, watching
from webhook.cli.findings import Report, Result, unreadable
from webhook.cli.judging import Judge, Source, as_received, identity
from webhook.cli.output import InputError, ToolError, reading, say
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings, SettingsError
from webhook.files import manifest
from webhook.files.walk import walk
from webhook.files.yamlfile import FileError, Part

_ASKS = re.compile(r"\bauthorizer\b").search
_COUNTS = ("refused", "warned", "changed", "matched by no policy", "not read")


@click.command("check")
@options.objects
@click.option(
    "--ignore", multiple=True, metavar="PATTERN", help="Files to leave out in folders, as in .gitignore; repeatable."
)
@click.option(
    "--old",
    type=click.Path(exists=True, dir_okay=False),
    help="File with the objects as they are now; makes these requests updates.",
)
@click.option("--as", "user", default="user", show_default=True, help="User who sends the request.")
@click.option("--as-group", "groups", multiple=True, help="Group of that user; repeatable.")
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of objects that do not name one."
)
@options.namespace_labels
@options.policies
@options.kubernetes
@options.nodes
@options.schemas
@click.option("--diff", is_flag=True, help="Show a diff of each object that would be changed.")
@options.config
@options.findings
@options.watch
def command(
    paths: tuple[str, ...], user: str, groups: tuple[str, ...], namespace_labels: tuple[str, ...], config: Path | None,
    policies__directories: tuple[str, ...], policies__kubernetes: str | None, nodes: tuple[str, ...], *, watch: bool,
    **rest: Any,
) -> None:  # fmt: skip
    """Show what `kubectl apply` would do to objects: mutate, then validate. No cluster is needed.

    It reads the .yaml, .yml and .json files of folders, except hidden ones and those that --ignore or a .cksignore
    names. Schemas judge objects first, CustomResourceDefinitions custom resources. With --nodes it warns of what the
    Nodes cannot do, such as hold a gang in one domain.

    Exit codes: 0 if all objects would be admitted, 1 if some would be refused, 2 if something cannot be read.

    \b
    Examples:
      cks-admission check examples/
      cks-admission check examples/deployment.yaml --as alice --as-group dev --diff
      cks-admission check examples/ --policies policies/packs/scheduling-safety -o sarif
      cks-admission check docs/guides/topology/train.yaml --nodes docs/guides/topology/nodes.yaml --diff
      kubectl kustomize overlays/production | cks-admission check -
      helm template charts/web | cks-admission check - --strict
      kubectl get deployment web -o yaml > old.yaml; cks-admission check web.yaml --old old.yaml
    """
    if not paths:
        raise InputError("name files or folders, such as `cks-admission check deploy/`, or - for standard input")
    changes = {"policies__directories": policies__directories, "policies__kubernetes": policies__kubernetes}
    who, labels = UserInfo(user, groups=(*groups, "system:authenticated")), options.labels(namespace_labels)
    settings = options.settings(config, changes)
    options.refuse_one_stdin(paths, nodes)

    def run() -> int:
        return _run(paths, settings, who, labels, nodes, **rest)

    watching.run(run, (*paths, *policies__directories), again=watch)


def _run(
    paths: tuple[str, ...], settings: Settings, user: UserInfo, labels: Mapping[str, str], nodes: tuple[str, ...], *,
    ignore: tuple[str, ...], old: str | None, namespace: str, schema: str, crds: tuple[str, ...], kubeconfig: str,
    output: str, diff: bool, quiet: bool, strict: bool,
) -> int:  # fmt: skip
    """Judge the objects and print what comes of them. The exit code. Raises InputError and ToolError."""
    files = walk(paths, ignore)
    if files.passed:
        say(f"passed over, for no objects are in them: {listed(files.passed, 5)}", err=True)
    source, today = Source.of(files.files), datetime.now(UTC).date()
    report = Report(output, quiet=quiet, strict=strict)
    for problem in files.problems:
        report.add(unreadable(problem))

    # The objects by which others are judged, of which some define kinds.
    among = list(source.context(options.CRD, "LimitRange", "ResourceQuota"))
    own = [*options.definitions_among(among), *options.definitions(crds, kubeconfig)]
    specs = [mapping(one, "spec") for one in own]
    kinds = Counter(f"{mapping(spec, 'names').get('kind')} of {spec.get('group')}" for spec in specs)
    for name in sorted(name for name, count in kinds.items() if count > 1):
        say(f"{name} is defined more than once; the last definition counts", err=True)

    # The rules, and all else on which it depends what is said of an object.
    release, coverage = settings.policies.release or NEWEST, None
    with reading(SettingsError, FileError):
        workloads = workload_table(settings)
        written, ruleset = options.ruleset(settings, today, drafts=True)
        known = judging.schemas(own, written, release)
        facts = written.facts(today) if written else StaticFacts(today)
        beside = options.definitions_among(document.value for document in written.loaded.context) if written else ()
        before = [as_received(one.object, known) for one in manifest.read([old] if old else [])]
        seen = judging.with_nodes(facts, nodes)
        limits = Limits((as_received(one, known) for one in among), namespace)
    if written is not None:
        loaded = written.loaded
        asking = [p.name for p in loaded.policies if any(_ASKS(one.source.text) for one in p.expressions)]
        if asking and written.rights is None:
            fails = f"each authorizer check of {listed(asking, 5)} fails"
            say(f"no RBAC objects are among the policies, so {fails}", err=True)

        def labels_of(name: str) -> Mapping[str, str]:
            return {**facts.namespace_labels(name), **labels}

        coverage = Coverage(loaded.policies, loaded.bindings, labels_of, workloads)
    judge = Judge(
        ruleset=ruleset,
        facts=seen,
        schema=known,
        user=user,
        namespace=namespace,
        labels=labels,
        today=today,
        before={identity(obj, namespace): obj for obj in before},
        schemas=Schemas(release, (*own, *beside)) if schema == "strict" else None,
        limits=limits,
        workloads=workloads,
        form=output,
        diff=diff,
        coverage=coverage,
    )

    # What one gang takes of the Nodes is not free for the next, so that one process judges all of them.
    with _progress(source.size, shown=output in ("junit", "sarif", "gitlab") or quiet) as bar:
        for step in steps(source.parts(), judge, alone=bool(nodes)):
            for result in step.results:
                report.add(result)
            bar(step.characters)
    if not report.total:
        raise InputError(f"{', '.join(paths)}: no objects found")

    # Which policies matched nothing: those that are probably misspelt, and the others.
    idle = list(coverage.idle()) if coverage is not None else []
    for policy, reason, hint in idle:
        if hint:
            say(f"{policy}: 0 of {report.total} objects matched {reason}; did you mean {hint}?", err=True)
    if others := [f"{policy} ({reason})" for policy, reason, hint in idle if not hint]:
        say(f"0 of {report.total} objects matched {'; '.join(others)}", err=True)
    judged = report.total - report.counts["not read"]
    parts = [f"{report.counts[name]} {name}" for name in _COUNTS if report.counts[name]]
    summary = f"{judged} objects: {', '.join(parts) or 'all admitted as they are'}"
    return report.end([summary] if judged > 1 else [])


ALONE = 64
"""So many parts are judged here before other processes begin: most runs have no more, and theirs come at once."""
SMALL = 1_000_000
"""Below so many characters a run ends before a bar could be read."""
_CHUNK_PARTS, _CHUNK_CHARACTERS = 64, 500_000
_MOST = 8


class Step(NamedTuple):
    """Results, and the characters that were read for them."""

    results: list[Result]
    characters: int


def steps(parts: Iterable[Part | str], judge: Judge, *, alone: bool) -> Iterator[Step]:
    """The results of all parts, in their order, few at a time. alone: whether this process judges all of them.

    Raises ToolError if another process ends early.
    """
    rest, processes = iter(parts), 1
    # One for each core that this process may use, where processes can be copied.
    if not alone and "fork" in multiprocessing.get_all_start_methods():
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        processes = min(cores, _MOST)
    for part in islice(rest, None if processes < 2 else ALONE):
        yield Step(list(judge.results(part)), _length(part))
    chunks = _chunks(rest)
    first = next(chunks, None)
    if first is None:
        return
    gc.freeze()  # what is loaded by now lives as long as the process: the collector need not look at it
    # Processes are copies of this one, so that none loads the policies again.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _begin, (judge,))
    waiting: deque[tuple[Future[Any], int]] = deque()
    try:
        for chunk in chain([first], chunks, [None]):
            if chunk is not None:
                waiting.append((pool.submit(_work, chunk), sum(map(_length, chunk))))
            while len(waiting) > (processes if chunk is not None else 0):
                future, characters = waiting.popleft()
                results, reach = future.result()
                if judge.coverage is not None:
                    judge.coverage.merge(reach)
                yield Step(results, characters)
    except BrokenProcessPool:
        raise ToolError("a process that judges objects ended early; it may have been out of memory") from None
    finally:
        pool.shutdown(cancel_futures=True)
        gc.unfreeze()


_JUDGES: list[Judge] = []
"""The judge of a process that helps; empty in the first process."""


def _begin(judge: Judge) -> None:
    _JUDGES.append(judge)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others


def _work(chunk: list[Part | str]) -> tuple[list[Result], object]:
    (judge,) = _JUDGES
    results = [result for part in chunk for result in judge.results(part)]
    return results, judge.coverage.reach if judge.coverage is not None else {}


def _chunks(parts: Iterable[Part | str]) -> Iterator[list[Part | str]]:
    chunk: list[Part | str] = []
    characters = 0
    for part in parts:
        chunk.append(part)
        characters += _length(part)
        if len(chunk) >= _CHUNK_PARTS or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _length(part: Part | str) -> int:
    return 0 if isinstance(part, str) else len(part.text)


@contextmanager
def _progress(length: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, on a terminal only: yields a function that takes the steps towards a length.

    shown: whether a bar has the terminal to itself, even if results go there, too.
    """
    if length < SMALL or not sys.stderr.isatty() or (sys.stdout.isatty() and not shown):
        yield lambda _: None
        return
    with click.progressbar(length=length, file=sys.stderr, show_pos=False, label="checking") as bar:
        yield bar.update
